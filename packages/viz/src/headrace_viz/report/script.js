// Shows the values under the pointer, and hides the runs whose boxes are not ticked. The page is complete without it.
"use strict";

const LEFT = 58, RIGHT = 12, WIDTH = 420, TOP = 10, BOTTOM = 36, HEIGHT = 240;

function nearest(xs, x) {
  let low = 0, high = xs.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (xs[middle] < x) low = middle; else high = middle;
  }
  return x - xs[low] <= xs[high] - x ? low : high;
}

function text(value) {
  return typeof value === "string" ? value : Number(value.toPrecision(6)).toString();
}

function follow(figure) {
  const svg = figure.querySelector("svg");
  const chart = JSON.parse(figure.querySelector("script").textContent);
  const [low, high] = chart.axes;
  const tip = document.createElement("div");
  tip.className = "tip hidden";
  figure.append(tip);
  const line = document.createElementNS("http://www.w3.org/2000/svg", "path");
  line.setAttribute("class", "pointer hidden");
  svg.append(line);

  const leave = () => { tip.classList.add("hidden"); line.classList.add("hidden"); };
  svg.addEventListener("pointerleave", leave);
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const place = (event.clientX - box.left) / box.width * WIDTH;
    const x = low + (place - LEFT) / (WIDTH - LEFT - RIGHT) * (high - low);
    const shown = chart.series.filter((item) => !document.body.classList.contains("without-" + item.run));
    if (place < LEFT - 4 || place > WIDTH - RIGHT + 4 || !shown.length) return leave();
    const found = shown.map((item) => ({ item, index: nearest(item.x, x) }));
    const first = found.reduce((a, b) =>
      Math.abs(b.item.x[b.index] - x) < Math.abs(a.item.x[a.index] - x) ? b : a);
    const at = first.item.x[first.index];
    tip.replaceChildren();
    tip.append(chart.name + " " + text(at));
    for (const { item, index } of found) {
      const row = document.createElement("div");
      const dot = document.createElement("i");
      dot.style.background = `var(--${item.color.split(" ")[0]})`;
      const where = item.x[index] === at ? "" : ` (at ${text(item.x[index])})`;
      row.append(dot, `${item.label}: ${text(item.y[index])}${where}`);
      tip.append(row);
    }
    const px = LEFT + (at - low) / (high - low) * (WIDTH - LEFT - RIGHT);
    line.setAttribute("d", `M${px} ${TOP}V${HEIGHT - BOTTOM}`);
    line.classList.remove("hidden");
    tip.classList.remove("hidden");
    const edge = figure.getBoundingClientRect();
    const left = event.clientX - edge.left + 14;
    tip.style.left = Math.max(0, Math.min(left, edge.width - tip.offsetWidth - 4)) + "px";
    tip.style.top = event.clientY - edge.top + 16 + "px";
  });
}

for (const figure of document.querySelectorAll("figure")) {
  if (figure.querySelector("script")) follow(figure);
}
for (const box of document.querySelectorAll("nav input")) {
  const show = () => {
    document.body.classList.toggle("without-" + box.value, !box.checked);
    for (const part of document.querySelectorAll(`.run-${box.value}`)) part.classList.toggle("hidden", !box.checked);
  };
  box.addEventListener("change", show);
  show();  // a browser may keep the ticks of an earlier visit
}
