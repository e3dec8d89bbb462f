// The metrics computed when the page was written, with intervals and tested differences.

function createMetrics(data, state) {
  const panel = find("panel-metrics");
  const { estimates, differences: tested } = data;
  if (!estimates.length) panel.append(make("p", {}, "No further metrics were computed when this page was written."));
  else panel.append(heading("Estimates"), estimateTable(data, estimates));
  const metrics = testedMetrics(data);
  if (!metrics.length) return { needs: [], draw: () => {} };

  const select = make("select", { id: "metric" }, metrics.map((metric) => make("option", { value: metric }, metric)));
  select.addEventListener("change", () => state.update({ metric: select.value }));
  const table = differenceTable(data);
  panel.append(heading("Differences"), make("p", { class: "remark" },
    "First minus second. The p values are of paired tests; Holm's guard against one false claim among all, ",
    "those of Benjamini and Hochberg against a larger share of false ones."),
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
    const below = [
      ...(Number.isFinite(item.std) ? [`± ${significantly(item.std)}`] : []),
      spread(item),
      ...(item.trusted ? [] : [item.remark || "untrusted interval"]),
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
  const value = (item) => [significantly(item.value), make("small", { class: "range-text" }, spread(item))];
  const p = (name) => (item) => significant(item[name]);
  return createTable("Differences between models", [
    { title: "First", header: true, cell: (item) => markedLabel(data, item.first) },
    { title: "Second", cell: (item) => markedLabel(data, item.second) },
    { title: "Difference", numeric: true, cell: value },
    { title: "p", numeric: true, cell: p("p") },
    { title: "p, Holm", numeric: true, cell: p("holm") },
    { title: "p, Benjamini-Hochberg", numeric: true, cell: p("bh") },
  ]);
}

// Metrics have all scales: mean ranks in the thousands, shares below one.
function significantly(value) {
  const size = Math.abs(value);
  return size < 100 ? fixed(value) : (size < 1000 ? RANK : WHOLE).format(value).replace("-", "−");
}

function spread({ low, high }) {
  const known = Number.isFinite(low) && Number.isFinite(high);
  return known ? `${significantly(low)} to ${significantly(high)}` : "no interval";
}
