// Metrics with intervals and significance tests, findings of the audit, and the evaluation protocol.

function createMetrics(data, state) {
  const panel = find("panel-metrics");
  if (!data.estimates.length) panel.append(make("p", {}, "No other metrics were computed when this page was written."));
  if (!data.estimates.length) return { needs: [], draw: () => {} };
  const all = make("p", { class: "remark", hidden: true }, "These metrics are those of all queries; filters do not change them.");
  const estimates = createTable("Metrics by model");
  const copy = (table, what) => make("p", { class: "actions" }, latexButton(data, () => table.table, what));
  panel.append(heading("Estimates"), all, estimates.element, copy(estimates, "estimates"));
  const metrics = testedMetrics(data);
  const select = make("select", { id: "metric" }, metrics.map((metric) => make("option", { value: metric }, metric)));
  select.addEventListener("change", () => state.update({ metric: select.value }));
  const table = differenceTable(data);
  if (metrics.length) {
    panel.append(heading("Differences"), make("p", { class: "remark" },
      "First minus second, the best pair first, of paired tests. A difference is significant where its interval ",
      "excludes 0. ", data.family),
    data.verdicts.length ? make("ul", { class: "verdicts" }, data.verdicts.map((text) => make("li", {}, label(text)))) : "",
    make("div", { class: "picks" }, make("label", { class: "pick", for: "metric" }, "Metric ", select)), table.element,
    copy(table, "differences"));
  }
  const draw = () => {
    const chosen = state.chosen();
    all.hidden = !isFiltered(state.values);
    const columns = kept(chosen, "estimate columns", () => estimateColumns(chosen));
    estimates.show([...new Set(data.estimates.map((item) => item.metric))], "", columns);
    select.value = state.values.metric;
    table.show(pairsInOrder(chosen, state.values.metric));
  };
  return { needs: ["metric", ...CHOICE], draw };
}

// The tested pairs of shown models, each with its better model first, ordered by the places of both models.
function pairsInOrder(data, metric) {
  const own = data.estimates.filter((item) => item.metric === metric && item.ends[0] !== null);
  const worst = ({ higherIsBetter, ends }) => (higherIsBetter ? ends[0] : -ends[1]); // of values that are ranges
  const order = own.sort((one, other) => worst(other) - worst(one));
  const place = (name) => (order.findIndex((item) => item.model === name) + 1) || Infinity;
  const shown = data.shown.map((model) => data.models[model].name);
  const tested = data.differences.filter((item) => item.metric === metric && shown.includes(item.first) && shown.includes(item.second));
  const turned = tested.map((item) => (place(item.first) > place(item.second) ? reversed(item) : item));
  return turned.sort((one, other) => place(one.first) - place(other.first) || place(one.second) - place(other.second));
}

function reversed(item) {
  const negative = (value) => (value === null ? null : 0 - value);
  const { first, second, value, ends, low, high } = item;
  const turned = { value: negative(value), ends: ends.map(negative).reverse(), low: negative(high), high: negative(low) };
  return { ...item, first: second, second: first, ...turned };
}

function testedMetrics(data) {
  return [...new Set(data.differences.map((item) => item.metric))];
}

function estimateColumns(data) {
  const cell = (model) => (metric) => {
    const item = data.estimates.find((one) => one.model === model && one.metric === metric);
    if (!item) return "none";
    if (item.ends[0] === null) return ["none", make("small", { class: "range-text long" }, item.reason)];
    const below = [
      ...(Number.isFinite(item.std) ? [`± ${significantly(item.std)}`] : []),
      spread(item),
    ];
    const doubt = item.trusted ? [] : [make("small", { class: "range-text long" }, item.remark || "unreliable interval")];
    return [valueText(item), below.map((text) => make("small", { class: "range-text" }, text)), doubt];
  };
  const ofModel = (index) => ({ title: modelName(data, index), numeric: true, cell: cell(data.models[index].name) });
  // A long name is broken between its parameters.
  const name = (metric) => make("bdi", { class: "label" }, metric.split(/(?<=,)/).flatMap((part) => [make("wbr"), part]));
  return [{ title: "Metric", header: true, cell: name }, ...data.shown.map(ofModel)];
}

function differenceTable(data) {
  const below = (item) => (item.low === null ? make("small", { class: "range-text long" }, item.reason)
    : make("small", { class: "range-text" }, spread(item)));
  const value = (item) => [item.ends[0] === null ? "none" : valueText(item), below(item)];
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

// A value, or the range of values that the unknown ranks allow.
function valueText({ value, ends }) {
  return value === null ? ends.map(significantly).join(" to ") : significantly(value);
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
