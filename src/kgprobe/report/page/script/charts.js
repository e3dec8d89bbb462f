// Plotly charts in the colours of the page. Labels go through plotText, because Plotly interprets some HTML.

// The colour of a model, as in the figures; black is lightened on a dark ground.
function modelColour({ colour }) {
  const dark = brightness(themeColour("surface")) < 0.2 && brightness(colour) < 0.05;
  return dark ? mixed(colour, themeColour("text"), 0.85) : colour;
}

// Relative luminance, from 0 to 1.
function brightness(colour) {
  const linear = [1, 3, 5].map((at) => (parseInt(colour.slice(at, at + 2), 16) / 255) ** 2.2);
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
}

// Models differ in shape as well, as in the figures: Plotly's name of each marker, and its character in a legend.
const SYMBOLS = {
  o: ["circle", "●"], s: ["square", "■"], "^": ["triangle-up", "▲"], D: ["diamond", "◆"],
  v: ["triangle-down", "▼"], P: ["cross", "✚"], X: ["x", "✖"],
};

function symbolOf({ marker }) {
  return SYMBOLS[marker];
}

// models: objects with a colour, a marker and a title.
function symbolLegend(models) {
  const items = models.map((model) => {
    const mark = { style: `color:${modelColour(model)}`, "aria-hidden": "true" };
    return make("li", {}, make("span", mark, symbolOf(model)[1]), " ", model.title);
  });
  return make("ul", { class: "legend in-line" }, items);
}

function mixed(from, to, share) {
  const channels = [1, 3, 5].map((at) => {
    const [a, b] = [from, to].map((colour) => parseInt(colour.slice(at, at + 2), 16));
    return Math.round(a + (b - a) * share).toString(16).padStart(2, "0");
  });
  return `#${channels.join("")}`;
}

const LONGEST_TEXT = 42;

function plotText(text, longest = LONGEST_TEXT) {
  const characters = [...String(text).replace(/\s+/g, " ")];
  const short = characters.length > longest ? [...characters.slice(0, longest - 1), "…"] : characters;
  return short.join("").replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

function themeColour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function axis(title, rest = {}) {
  return {
    title: { text: title, standoff: 8 },
    gridcolor: themeColour("line"),
    linecolor: themeColour("line"),
    zerolinecolor: themeColour("line"),
    tickcolor: themeColour("line"),
    fixedrange: true,
    automargin: true,
    ...rest,
  };
}

function plotLayout(rest) {
  const text = themeColour("text");
  return {
    font: { family: "system-ui, sans-serif", size: 13, color: text },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    margin: { l: 48, r: 12, t: 12, b: 44 },
    showlegend: false,
    dragmode: false,
    hoverlabel: { bgcolor: themeColour("surface"), bordercolor: themeColour("line"), font: { color: text } },
    ...rest,
  };
}

// A chart is an image with a label; a table beside it has the same content.
function createChart(name, height) {
  return make("div", { class: "chart", role: "img", "aria-label": name, style: `height:${height}px` });
}

// The title is not drawn on the page, which has headings, but in saved images.
function drawChart(element, traces, layout, title = "") {
  element.dataset.title = title;
  return Plotly.react(element, traces, plotLayout(layout), { displayModeBar: false, responsive: true });
}

// A trace without points, for the legend of a saved image.
function legendEntry(model) {
  const marker = { color: modelColour(model), symbol: "square", size: 11 };
  return { type: "scatter", mode: "markers", x: [null], y: [null], name: plotText(model.name), marker, hoverinfo: "skip" };
}

// A chart with buttons that save it as an image.
function framed(chart, file) {
  const save = (format) => button(`Save ${format.toUpperCase()}`, () => saveChart(chart, file, format), {
    "aria-label": `Save chart as ${format.toUpperCase()}: ${chart.getAttribute("aria-label").split(/;| over /)[0]}`,
  });
  return make("div", { class: "framed" }, chart, make("p", { class: "actions small" }, save("svg"), save("png")));
}

const LEGEND_ROOM = 60;

async function saveChart(chart, file, format) {
  const { clientWidth: width, clientHeight: height, data, layout, dataset } = chart;
  const named = data.filter(({ name }) => name).length;
  const room = LEGEND_ROOM + 20 * Math.ceil(named / 4);
  const image = {
    data: data.map((trace) => ({ ...trace, showlegend: Boolean(trace.name) })),
    layout: {
      ...layout,
      width,
      height: height + room,
      autosize: false,
      paper_bgcolor: themeColour("surface"),
      title: { text: plotText(dataset.title, 90), font: { size: 14 }, x: 0.02, xanchor: "left", y: 0.98, yanchor: "top" },
      margin: { ...layout.margin, t: room },
      showlegend: named > 0,
      legend: { orientation: "h", x: 0, xanchor: "left", y: 1.01, yanchor: "bottom" },
    },
  };
  const scale = format === "png" ? 3 : 1;
  saveLink(`${file}.${format}`, await Plotly.toImage(image, { format, width, height: height + room, scale }));
}

function asTable(summary, ...content) {
  return make("details", { class: "as-table" }, make("summary", {}, summary), content);
}
