// What Plotly draws of the plane.

// Rows are betas and columns are alphas, as Plotly wants them.
function overPlane(plane, valueAt) {
  const columns = plane.alphas.map((_, i) => columnAt(plane, i));
  return plane.betas.map((_, at) => columns.map((column, i) => valueAt(column, at, i)));
}

function planeTrace(plane, z, words, rest) {
  const text = overPlane(plane, (column, at, i) =>
    `${words(column, at)}<br>${pointText({ alpha: plane.alphas[i], beta: plane.betas[at] })}`);
  return { type: "heatmap", x: plane.alphas, y: plane.betas, z: overPlane(plane, z), text, hoverinfo: "text", ...rest };
}

// A step of the colour scale for every model, beyond and within noise.
function decisionTrace(data, plane) {
  const ground = themeColour("surface");
  const colours = data.models.flatMap((_, i) => [modelColour(i), mixed(modelColour(i), ground, 0.62)]);
  const top = colours.length;
  const code = (column, at) => 2 * column.winner[at] + (column.beyond[at] ? 0 : 1) + 0.5;
  const words = (column, at) =>
    `${plotText(data.models[column.winner[at]].name)}, ${column.beyond[at] ? "beyond" : "within"} noise`;
  const colorscale = colours.flatMap((colour, i) => [[i / top, colour], [(i + 1) / top, colour]]);
  return planeTrace(plane, code, words, { zmin: 0, zmax: top, showscale: false, colorscale });
}

// Small strokes where the lead is within noise, so that no colour has to be judged.
function hatching(plane) {
  const open = plane.alphas.flatMap((alpha, i) => {
    const { beyond } = columnAt(plane, i);
    return plane.betas.filter((_, at) => !beyond[at]).map((beta) => [alpha, beta]);
  });
  return {
    type: "scatter", mode: "markers", x: open.map(([x]) => x), y: open.map(([, y]) => y), hoverinfo: "skip",
    marker: { symbol: "line-ne-open", size: 8, color: themeColour("text"), opacity: 0.5, line: { width: 1 } },
  };
}

function heatTrace(data, model, plane) {
  const several = data.models.length > 1;
  const value = (column, at) => normalised(column, model, at);
  const words = (column, at) => `${several ? "Between worst and best: " : "Score: "}${fixed(value(column, at), 3)}`;
  const scale = several ? { zmin: 0, zmax: 1 } : {};
  const colorbar = { thickness: 10, outlinewidth: 0, tickcolor: themeColour("line") };
  return planeTrace(plane, value, words, { ...scale, colorscale: "Cividis", colorbar });
}

// How much of the plane every model wins.
function wonShares(data, plane) {
  const cells = overPlane(plane, (column, at) => [column.winner[at], column.beyond[at]]).flat();
  const share = (wanted) => cells.filter(wanted).length / cells.length;
  const models = data.models.map((_, index) => ({
    index,
    won: share(([winner]) => winner === index),
    sure: share(([winner, beyond]) => winner === index && beyond),
  }));
  return models.filter(({ won }) => won > 0).sort((a, b) => b.won - a.won).map(({ index, won, sure }) => {
    const text = ` ${percent(won)} of the plane, ${percent(sure)} beyond noise`;
    return make("li", {}, modelName(data, index), make("span", { class: "remark" }, text));
  });
}
