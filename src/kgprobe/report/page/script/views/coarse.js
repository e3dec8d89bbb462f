// The map at the paper's grid as a table: winners by name, each a button that goes to its point.

const COARSE = { alpha: [-1, -0.5, 0, 0.5, 1], beta: [0.8, 0.6, 0.4, 0.2, 0] };

function createCoarse(data, state) {
  const several = data.models.length > 1;
  const title = make("caption");
  const body = make("tbody");
  const betas = data.hasPopularity ? COARSE.beta : [0];
  const heads = COARSE.alpha.map((alpha) => make("th", { scope: "col" }, `alpha ${shortNumber(alpha)}`));
  const table = make("table", { class: "coarse" }, title, make("thead", {}, make("tr", {}, make("td"), heads)), body);
  const region = { class: "box", tabindex: "0", role: "region", "aria-label": "The map as a table" };
  const element = make("div", region, table);

  const cell = (plane, alpha, beta) => {
    const column = plane.columns[plane.alphas.indexOf(alpha)];
    const at = plane.betas.indexOf(beta);
    if (!column) return make("td", {}, "not computed yet");
    const value = fixed(normalised(column, state.values.heat, at), several ? 2 : 4);
    const where = unseen(` at ${pointText({ alpha, beta })}`);
    const go = { type: "button", class: "go", onclick: () => state.update({ alpha, beta }) };
    if (!several) return make("td", {}, make("button", go, value, where));
    const noise = make("span", { class: "remark" }, column.beyond[at] ? "beyond noise" : "within noise");
    const winner = make("button", go, modelName(data, column.winner[at]), where);
    return make("td", {}, winner, noise, make("span", { class: "remark" }, `${value} of 1`));
  };
  const draw = (plane) => {
    const chosen = label(data.models[state.values.heat].name);
    title.replaceChildren(...(several
      ? ["The best model at each point, and below it where ", chosen, " stands between the worst (0) and the best (1)"]
      : ["Score of ", chosen, " at each point"]));
    const row = (beta) => make("tr", {}, make("th", { scope: "row" }, `beta ${shortNumber(beta)}`),
      COARSE.alpha.map((alpha) => cell(plane, alpha, beta)));
    body.replaceChildren(...betas.map(row));
  };
  return { element, draw };
}
