// Shows openapi.json: each operation with its parameters, its body, its answers, and an example.

function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  Object.assign(made, properties);
  made.append(...children);
  return made;
}

const response = await fetch("openapi.json");
const api = await response.json();
document.getElementById("title").textContent = `${api.info.title} ${api.info.version}`;
document.getElementById("about").textContent = api.info.description;

const resolved = (schema) => schema?.$ref ? api.components.schemas[schema.$ref.split("/").at(-1)] : schema;

function content(what, { content: kinds = {}, description = "" }) {
  const parts = Object.entries(kinds).map(([kind, { schema, example }]) => element("details", {},
    element("summary", { textContent: kind }),
    element("pre", { textContent: JSON.stringify(example ?? resolved(schema) ?? {}, null, 2) })));
  return element("div", {}, element("b", { textContent: what }), ` ${description}`, ...parts);
}

for (const [path, verbs] of Object.entries(api.paths)) {
  for (const [verb, operation] of Object.entries(verbs)) {
    if (verb === "parameters") continue;
    const parameters = [...(verbs.parameters ?? []), ...(operation.parameters ?? [])]
      .map((parameter) => parameter.$ref ? api.components.parameters[parameter.$ref.split("/").at(-1)] : parameter);
    const section = element("section", { id: operation.operationId },
      element("h3", {}, element("code", { textContent: `${verb.toUpperCase()} ${path}` })),
      element("p", { textContent: operation.summary }),
      ...parameters.map((parameter) => element("div", {},
        element("code", { textContent: parameter.name }), ` (${parameter.in}) ${parameter.description ?? ""}`)));
    if (operation.requestBody) section.append(content("body", operation.requestBody));
    for (const [code, answer] of Object.entries(operation.responses)) {
      const found = answer.$ref ? api.components.responses[answer.$ref.split("/").at(-1)] : answer;
      section.append(content(code, found));
    }
    document.getElementById("operations").append(section);
  }
}
