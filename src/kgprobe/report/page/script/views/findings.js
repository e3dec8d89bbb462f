// Metrics with intervals and significance tests, findings of the audit, and the evaluation protocol.

function createMetrics(data, state) {
  const panel = find("panel-metrics");
  const { estimates, differences: tested } = data;
  if (!estimates.length) panel.append(make("p", {}, "No other metrics were computed when this page was written."));
  else panel.append(heading("Estimates"), estimateTable(data, estimates));
  const metrics = testedMetrics(data);
  if (!metrics.length) return { needs: [], draw: () => {} };

  const select = make("select", { id: "metric" }, metrics.map((metric) => make("option", { value: metric }, metric)));
  select.addEventListener("change", () => state.update({ metric: select.value }));
  const table = differenceTable(data);
  panel.append(heading("Differences"), make("p", { class: "remark" },
    "First minus second, of paired tests. A difference is significant where its interval excludes 0. ", data.family),
  make("div", { class: "picks" }, make("label", { class: "pick", for: "metric" }, "Metric ", select)), table.element);
  const draw = () => {
    select.value = state.values.metric;
    table.show(tested.filter((item) => item.metric === state.values.metric));
  };
  return { needs: ["metric"], draw };
}

function testedMetrics(data) {
  return [...new Set(data.differences.map((item) => item.metric))];
}

function estimateTable(data, estimates) {
  const metrics = [...new Set(estimates.map((item) => item.metric))];
  const cell = (model) => (metric) => {
    const item = estimates.find((one) => one.model === model && one.metric === metric);
    if (!item) return "none";
    if (item.value === null) return ["none", make("small", { class: "range-text" }, item.reason)];
    const below = [
      ...(Number.isFinite(item.std) ? [`± ${significantly(item.std)}`] : []),
      spread(item),
      ...(item.trusted ? [] : [item.remark || "unreliable interval"]),
    ];
    return [significantly(item.value), below.map((text) => make("small", { class: "range-text" }, text))];
  };
  const table = createTable("Metrics by model", [
    { title: "Metric", header: true, cell: (metric) => label(metric) },
    ...data.models.map(({ name }, index) => ({ title: modelName(data, index), numeric: true, cell: cell(name) })),
  ]);
  table.show(metrics);
  return table.element;
}

function differenceTable(data) {
  const below = (item) => make("small", { class: "range-text" }, item.value === null ? item.reason : spread(item));
  const value = (item) => [item.value === null ? "none" : significantly(item.value), below(item)];
  const p = (name) => (item) => significant(item[name]);
  return createTable("Differences between models", [
    { title: "First", header: true, cell: (item) => markedLabel(data, item.first) },
    { title: "Second", cell: (item) => markedLabel(data, item.second) },
    { title: "Difference", numeric: true, cell: value },
    { title: "p", numeric: true, cell: p("p") },
    { title: "adjusted p", numeric: true, cell: p("adjusted") },
  ]);
}

// Number of digits by magnitude: mean ranks can be in the thousands, other metrics are below one.
function significantly(value) {
  const size = Math.abs(value);
  return size < 100 ? fixed(value) : (size < 1000 ? RANK : WHOLE).format(value).replace("-", "−");
}

function spread({ low, high }) {
  const known = Number.isFinite(low) && Number.isFinite(high);
  return known ? `${significantly(low)} to ${significantly(high)}` : "no interval";
}

// Findings of the audit, and the evaluation protocol.

function createAudit(data) {
  const panel = find("panel-audit");
  const rank = ["error", "warning", "note"];
  const found = [...data.findings].sort((a, b) => rank.indexOf(a.severity) - rank.indexOf(b.severity));
  const count = (severity) => found.filter((item) => item.severity === severity).length;
  const counts = rank.filter(count).map((severity) => plural(count(severity), severity));
  panel.append(heading("Audit of the rank files"), make("p", {}, found.length
    ? `The audit found ${listed(counts).join("")}.`
    : "The audit found no problems: these files can be compared."));
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
  const held = data.exact ? "All ranks are stored exactly, without compression." : data.compression;
  panel.append(heading("This page"), make("p", {}, held));
  panel.append(make("ul", {}, data.notes.map((note) => make("li", { dir: "auto" }, note))));
  return { needs: [], draw: () => {} };
}

function pairs(rows) {
  return make("dl", { class: "pairs" }, rows.map(([key, text]) =>
    make("div", {}, make("dt", {}, key), make("dd", {}, label(text)))));
}
