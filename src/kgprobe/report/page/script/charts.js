// Plotly charts in the colours of the page. Labels go through plotText, because Plotly interprets some HTML.

// The Okabe-Ito palette, safe for common forms of colour blindness; each model has the same colour everywhere.
const PALETTE = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c8c8c", "#f0e442"];

// After eight models the colours repeat, darker and lighter; names are always shown beside them.
function modelColour(index) {
  const round = Math.floor(index / PALETTE.length);
  const towards = round % 2 ? "#000000" : "#ffffff";
  return mixed(PALETTE[index % PALETTE.length], towards, Math.min(0.25 * Math.ceil(round / 2), 0.6));
}

function mixed(from, to, share) {
  const channels = [1, 3, 5].map((at) => {
    const [a, b] = [from, to].map((colour) => parseInt(colour.slice(at, at + 2), 16));
    return Math.round(a + (b - a) * share).toString(16).padStart(2, "0");
  });
  return `#${channels.join("")}`;
}

const LONGEST_TEXT = 42;

function plotText(text) {
  const characters = [...String(text).replace(/\s+/g, " ")];
  const short = characters.length > LONGEST_TEXT ? [...characters.slice(0, LONGEST_TEXT - 1), "…"] : characters;
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

function drawChart(element, traces, layout) {
  return Plotly.react(element, traces, plotLayout(layout), { displayModeBar: false, responsive: true });
}

function asTable(summary, ...content) {
  return make("details", { class: "as-table" }, make("summary", {}, summary), content);
}
