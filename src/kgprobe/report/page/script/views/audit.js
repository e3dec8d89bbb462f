// What the audit found, and under which rules the ranks were made.

function createAudit(data) {
  const panel = find("panel-audit");
  const rank = ["error", "warning", "note"];
  const found = [...data.findings].sort((a, b) => rank.indexOf(a.severity) - rank.indexOf(b.severity));
  const count = (severity) => found.filter((item) => item.severity === severity).length;
  const counts = rank.filter(count).map((severity) => plural(count(severity), severity));
  panel.append(heading("May these files be compared?"), make("p", {}, found.length
    ? `The audit found ${listed(counts).join("")}.`
    : "The audit found nothing that speaks against comparing these files."));
  panel.append(make("ul", { class: "findings" }, found.map((item) => make("li", { class: item.severity },
    make("span", { class: "severity" }, item.severity), " ",
    make("strong", {}, listed(item.models.map(label))), item.models.length ? ": " : "",
    make("bdi", { class: "label" }, item.message)))));
  return { needs: [], draw: () => {} };
}

function createProtocol(data) {
  const panel = find("panel-protocol");
  const { graph } = data;
  if (graph) {
    const facts = [["name", graph.name], ["entities", whole(graph.entities)], ["hash", graph.hash]];
    panel.append(heading("Graph"), pairs(facts));
  }
  const card = (model, index) => make("section", { class: "card", "aria-label": model.name },
    make("h4", {}, modelName(data, index)),
    pairs([["file", model.file], ...model.protocol].filter(([, text]) => text !== "")));
  panel.append(heading("Models"), make("div", { class: "cards" }, data.models.map(card)));
  const held = data.exact ? "Every rank is kept as it is in the files: nothing was compressed." : data.compression;
  panel.append(heading("This page"), make("p", {}, held));
  panel.append(make("ul", {}, data.notes.map((note) => make("li", { dir: "auto" }, note))));
  return { needs: [], draw: () => {} };
}

function pairs(rows) {
  return make("dl", { class: "pairs" }, rows.map(([key, text]) =>
    make("div", {}, make("dt", {}, key), make("dd", {}, label(text)))));
}
