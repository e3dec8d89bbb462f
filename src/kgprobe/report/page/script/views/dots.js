// Scores by group as dots with intervals, a row for each group.

// Shapes as well as colours tell the models apart: Plotly's name of each, and the letter for the legend.
const SYMBOLS = [
  ["circle", "●"], ["square", "■"], ["diamond", "◆"], ["triangle-up", "▲"],
  ["triangle-down", "▼"], ["star", "★"], ["cross", "✚"], ["hexagon", "⬢"],
];
const NARROW = 560;

function symbolOf(index) {
  return SYMBOLS[index % SYMBOLS.length];
}

function symbolLegend(names) {
  const items = names.map((name, index) => {
    const mark = { style: `color:${modelColour(index)}`, "aria-hidden": "true" };
    return make("li", {}, make("span", mark, symbolOf(index)[1]), " ", name);
  });
  return make("ul", { class: "legend in-line" }, items);
}

function drawGroups(data, rows, chart) {
  const models = data.models.length;
  const narrow = chart.clientWidth < NARROW;
  const gap = Math.min(0.13, (narrow ? 0.6 : 0.8) / models);
  const names = rows.map((row) => plotText(row.label));
  // On a phone, names beside the dots would leave no room for them: they stand above.
  const above = names.map((text, i) => ({
    text, y: 0.46 - i, x: 0, xref: "paper", xanchor: "left", showarrow: false, font: { size: 12 },
  }));
  const height = 70 + rows.length * Math.max(narrow ? 60 : 36, 12 * Math.min(models, 12));
  chart.style.height = `${height}px`;
  drawChart(chart, data.models.map((_, index) => dots(data, index, rows, (index - (models - 1) / 2) * gap)), {
    height, // else it stays as high as it was first
    margin: { l: 16, r: 16, t: 8, b: 44 },
    xaxis: axis("score", { nticks: narrow ? 5 : 10, zeroline: false }),
    yaxis: axis("", {
      tickvals: names.map((_, i) => -i), ticktext: names, showticklabels: !narrow, zeroline: false,
      range: [0.4 - names.length, 0.6],
    }),
    annotations: narrow ? above : [],
  });
}

function dots(data, index, rows, shift) {
  const color = modelColour(index);
  const text = rows.map((row) => [
    plotText(data.models[index].name),
    `${plotText(row.label)}: ${fixed(row.values[index])}`,
    rangeText(row.low[index], row.high[index]),
  ].join("<br>"));
  return {
    type: "scatter", mode: "markers", hoverinfo: "text", text,
    x: rows.map((row) => row.values[index]),
    y: rows.map((_, i) => -i - shift),
    marker: { size: 9, color, symbol: symbolOf(index)[0] },
    error_x: {
      type: "data", symmetric: false, thickness: 1.5, width: 0, color,
      array: rows.map((row) => row.high[index] - row.values[index]),
      arrayminus: rows.map((row) => row.values[index] - row.low[index]),
    },
  };
}
