// The page of the server: its models, its load, and a form for each signature. Everything is read from the routes that
// clients use, and text from the server only ever becomes text.

const POINTS = 120;
const rates = [], medians = [], tails = [];
let before = null;
let shown = "";

const find = (id) => document.getElementById(id);

function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  Object.assign(made, properties);
  made.append(...children);
  return made;
}

function headers(more = {}) {
  const key = find("key").value;
  return key ? { ...more, "X-API-Key": key } : more;
}

async function ask(path, options = {}) {
  const response = await fetch(path, { ...options, headers: headers(options.headers) });
  const text = await response.text();
  if (!response.ok) {
    let message = text;
    try { message = JSON.parse(text).error; } catch { /* not from this server */ }
    throw new Error(`${response.status}: ${message}`);
  }
  return text;
}

// ---- models ----

function row(version, statistics) {
  const done = statistics?.inference_stats.success ?? { count: 0, ns: 0 };
  const mean = done.count ? (done.ns / done.count / 1e6).toFixed(2) : "–";
  const state = element("td", { textContent: version.state, className: version.state === "READY" ? "ready" : "unready" });
  if (version.reason) state.title = version.reason;
  return element("tr", {},
    element("td", { textContent: version.name }), element("td", { textContent: version.version ?? "" }), state,
    element("td", { textContent: done.count }), element("td", { textContent: mean }));
}

async function showModels() {
  const versions = JSON.parse(await ask("v2/repository/index", { method: "POST" }));
  const found = JSON.parse(await ask("v2/models/stats")).model_stats;
  const of = (version) => found.find((entry) => entry.name === version.name && entry.version === version.version);
  find("models").tBodies[0].replaceChildren(...versions.map((version) => row(version, of(version))));
  const ready = versions.filter((version) => version.state === "READY");
  const now = JSON.stringify(ready);
  if (now !== shown) {
    shown = now;
    find("forms").replaceChildren();
    for (const version of ready) await showForms(version);
  }
}

// ---- load ----

function histogram(text) {
  const buckets = new Map();
  let count = 0;
  for (const line of text.split("\n")) {
    const bucket = line.match(/request_latency_bucket\{.*le="([^"]+)"\} (\d+)/);
    if (bucket) {
      const bound = bucket[1] === "+Inf" ? Infinity : Number(bucket[1]);
      buckets.set(bound, (buckets.get(bound) ?? 0) + Number(bucket[2]));
    }
    const total = line.match(/request_latency_count\S* (\d+)/);
    if (total) count += Number(total[1]);
  }
  return { buckets, count, time: performance.now() };
}

function quantile(now, old, share) {
  const wanted = (now.count - old.count) * share;
  for (const bound of [...now.buckets.keys()].sort((a, b) => a - b)) {
    if (now.buckets.get(bound) - (old.buckets.get(bound) ?? 0) >= wanted) return bound / 1e3;
  }
  return null;
}

function draw(id, ...series) {
  const top = Math.max(1e-9, ...series.flat().filter(Number.isFinite)) * 1.1;
  const lines = series.map((values, number) => {
    const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
    const points = values.map((value, at) => [at + POINTS - values.length, 60 - 60 * (value ?? 0) / top]);
    line.setAttribute("points", points.filter(([, y]) => Number.isFinite(y)).map((point) => point.join(",")).join(" "));
    if (number) line.setAttribute("class", "second");
    return line;
  });
  find(id).replaceChildren(...lines);
  find(`${id}-top`).textContent = Number.isFinite(top) && top > 1e-6 ? Number(top.toPrecision(3)) : "";
}

function remember(series, value) {
  series.push(value);
  if (series.length > POINTS) series.shift();
}

async function showLoad() {
  const now = histogram(await ask("monitoring/prometheus/metrics"));
  if (before) {
    const rate = (now.count - before.count) / (now.time - before.time) * 1e3;
    const some = now.count > before.count;
    remember(rates, rate);
    remember(medians, some ? quantile(now, before, 0.5) : null);
    remember(tails, some ? quantile(now, before, 0.99) : null);
    find("rate").textContent = rate.toFixed(1);
    find("median").textContent = some ? medians.at(-1).toFixed(2) : "–";
    find("tail").textContent = some ? tails.at(-1).toFixed(2) : "–";
    draw("rates", rates);
    draw("latencies", medians, tails);
  }
  before = now;
}

async function show() {
  try {
    await showModels();
    await showLoad();
    const { ready } = await (await fetch("v2/health/ready")).json();
    find("state").textContent = ready ? "ready" : "not ready";
    find("state").className = ready ? "ready" : "unready";
  } catch (error) {
    find("state").textContent = error.message;
    find("state").className = "error";
  }
  setTimeout(show, 1000);
}

// ---- forms ----

const sizes = (info) => info.tensor_shape.unknown_rank ? null : info.tensor_shape.dim.map((dim) => Number(dim.size));

function filled(dims, value) {
  if (!dims.length) return value();
  return Array.from({ length: dims[0] < 0 ? 1 : dims[0] }, () => filled(dims.slice(1), value));
}

function example(info, random) {
  const dims = sizes(info) ?? [];
  if (info.dtype === "DT_STRING") return filled(dims, () => "text");
  if (info.dtype === "DT_BOOL") return filled(dims, () => random && Math.random() < 0.5);
  const whole = info.dtype.includes("INT");
  return filled(dims, () => random ? (whole ? Math.floor(Math.random() * 10) : Number(Math.random().toFixed(3))) : 0);
}

async function fromImage(file, info) {
  if (info.dtype === "DT_STRING") {
    const bytes = new Uint8Array(await file.arrayBuffer());
    let text = "";
    for (const byte of bytes) text += String.fromCharCode(byte);
    const value = { b64: btoa(text) };
    return (sizes(info) ?? []).length ? [value] : value;
  }
  const dims = sizes(info) ?? [-1, -1, -1, 3];
  const bitmap = await createImageBitmap(file);
  const [height, width, channels] = dims.length === 4 ? dims.slice(1) : dims.length === 3 ? [...dims.slice(1), 0] : [0, 0, 0];
  let [tall, wide] = [height > 0 ? height : bitmap.height, width > 0 ? width : bitmap.width];
  const flat = dims.length === 2 && dims[1] > 0 ? Math.round(Math.sqrt(dims[1])) : 0;  // a square, laid out in a row
  if (flat) tall = wide = flat;
  const canvas = element("canvas", { width: wide, height: tall });
  const context = canvas.getContext("2d");
  context.drawImage(bitmap, 0, 0, wide, tall);
  const pixels = context.getImageData(0, 0, wide, tall).data;
  const scale = info.dtype.includes("INT") ? (value) => Math.round(value) : (value) => Number((value / 255).toFixed(4));
  const grey = (at) => scale(0.299 * pixels[at] + 0.587 * pixels[at + 1] + 0.114 * pixels[at + 2]);
  const pixel = (at) => channels > 1 ? Array.from({ length: channels }, (_, c) => scale(pixels[at + Math.min(c, 3)]))
    : dims.length === 4 ? [grey(at)] : grey(at);
  const rows = Array.from({ length: tall }, (_, y) => Array.from({ length: wide }, (_, x) => pixel(4 * (y * wide + x))));
  return [flat ? rows.flat() : rows];
}

function describe(info) {
  const dims = sizes(info);
  return `${info.dtype.replace("DT_", "").toLowerCase()} ${dims ? `[${dims.map((size) => size < 0 ? "?" : size).join(", ")}]` : "of any shape"}`;
}

function field(alias, info) {
  const text = element("textarea", { name: alias, value: JSON.stringify(example(info, false)), spellcheck: false });
  const fill = (random) => () => { text.value = JSON.stringify(example(info, random)); };
  const take = async (file) => { if (file) text.value = JSON.stringify(await fromImage(file, info)); };
  const picker = element("input", { type: "file", accept: "image/*", onchange: () => take(picker.files[0]) });
  const box = element("fieldset", {},
    element("legend", {}, element("code", { textContent: alias }), ` ${describe(info)}`), text,
    element("button", { type: "button", textContent: "zeros", onclick: fill(false) }), " ",
    element("button", { type: "button", textContent: "random", onclick: fill(true) }), " or drop an image ", picker);
  box.addEventListener("dragover", (event) => { event.preventDefault(); box.classList.add("over"); });
  box.addEventListener("dragleave", () => box.classList.remove("over"));
  box.addEventListener("drop", (event) => {
    event.preventDefault();
    box.classList.remove("over");
    take(event.dataTransfer.files[0]);
  });
  return [text, box];
}

function curl(path, body) {
  const url = new URL(path, document.baseURI);
  const key = find("key").value ? " -H 'X-API-Key: '\"$HEADRACE_API_KEY\"" : "";
  return `curl${key} -d '${body.replaceAll("'", "'\\''")}' '${url}'`;
}

async function showForms({ name, version }) {
  const base = `v1/models/${encodeURIComponent(name)}/versions/${version}`;
  const { signature_def: signatures } = JSON.parse(await ask(`${base}/metadata`)).metadata.signature_def;
  for (const [signature, { inputs, outputs }] of Object.entries(signatures)) {
    const fields = Object.entries(inputs).map(([alias, info]) => [alias, ...field(alias, info)]);
    const answer = element("pre", { className: "answer", hidden: true });
    const command = element("pre", { className: "curl", hidden: true });
    const took = element("span", { className: "quiet took" });
    const form = element("form", {},
      element("h3", { textContent: `${name}, version ${version}: ${signature}` }),
      element("p", { className: "quiet", textContent: "answers " + Object.entries(outputs).map(([alias, info]) => `${alias} ${describe(info)}`).join("; ") }),
      ...fields.map(([, , box]) => box), element("button", { textContent: "send" }), " ", took, answer, command);
    form.dataset.model = name;
    form.dataset.signature = signature;
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const start = performance.now();
      answer.hidden = command.hidden = false;
      answer.className = "answer";
      try {
        const values = fields.map(([alias, text]) => `${JSON.stringify(alias)}: ${text.value}`);
        const body = `{"signature_name": ${JSON.stringify(signature)}, "inputs": {${values.join(", ")}}}`;
        command.textContent = curl(`${base}:predict`, body);
        answer.textContent = await ask(`${base}:predict`, { method: "POST", body });
        took.textContent = `${(performance.now() - start).toFixed(1)} ms`;
      } catch (error) {
        answer.textContent = error.message;
        answer.className = "answer error";
      }
    });
    find("forms").append(form);
  }
}

find("key").addEventListener("change", () => { shown = ""; });
show();
