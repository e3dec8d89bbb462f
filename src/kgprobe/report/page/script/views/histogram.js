// How two models' ranks spread, and where they differ.

function createHistogram(data, state) {
  const several = data.models.length > 1;
  const picks = [make("span"), make("span")];
  const chart = createChart("Number of queries by rank; the table below has the numbers", 300);
  const gap = createChart("Difference of the numbers of queries by rank; the table below has the numbers", 220);
  const gapTitle = heading("Difference");
  const table = make("div");
  find("panel-ranks").append(heading("Where the right answer stands"), make("div", { class: "picks" }, picks), chart,
    ...(several ? [gapTitle, gap] : []), asTable("The numbers", table));
  const names = several ? { first: "First model", second: "Second model" } : { first: "Model" };

  const draw = () => {
    const chosen = Object.keys(names).map((name) => state.values[name]);
    Object.entries(names).forEach(([id, text], i) => {
      showSelect(picks[i], data, { id, text, chosen: chosen[i], pick: (model) => state.update({ [id]: model }) });
    });
    const counted = chosen.map((model) => histogram(data, model));
    const { bins } = counted[0];
    const plain = { showgrid: false, zeroline: false };
    const ticks = { tickvals: bins.map((_, i) => i), ticktext: bins.map(plotText), range: [-0.5, bins.length - 0.5] };
    const xaxis = axis("rank", { ...plain, ...ticks });
    const shifts = several ? [-0.2, 0.2] : [0];
    const bars = chosen.map((model, i) => histogramBars(data, model, counted[i], shifts[i]));
    drawChart(chart, bars, { barmode: "overlay", xaxis, yaxis: axis("queries", { rangemode: "tozero" }) });
    if (several) {
      const [one, other] = chosen.map((model) => label(data.models[model].name));
      gapTitle.replaceChildren(one, " minus ", other);
      const yaxis = axis("queries", { zerolinecolor: themeColour("muted") });
      drawChart(gap, [gapBars(counted, chosen)], { xaxis, yaxis });
    }
    table.replaceChildren(histogramTable(data, chosen, counted));
  };
  return { panel: "ranks", needs: ["first", "second", "theme"], draw };
}

function histogramBars(data, model, { counts, bins }, shift) {
  // The second model's bars are hollow, so that no colour has to be told apart.
  const colour = modelColour(model);
  const fill = shift > 0 ? mixed(colour, themeColour("surface"), 0.75) : colour;
  const name = plotText(data.models[model].name);
  return {
    type: "bar", x: counts.map((_, i) => i + shift), y: counts, width: shift ? 0.38 : 0.6,
    hoverinfo: "text", textposition: "none",
    text: counts.map((count, i) => `${name}<br>rank ${plotText(bins[i])}: ${RANK.format(count)} queries`),
    marker: { color: fill, line: { color: colour, width: 2 } },
  };
}

function gapBars([one, other], [first, second]) {
  const gaps = one.counts.map((count, i) => count - other.counts[i]);
  return {
    type: "bar", x: gaps.map((_, i) => i), y: gaps, width: 0.6, hoverinfo: "skip", cliponaxis: false,
    text: gaps.map((value) => signed(value, Number.isInteger(value) ? 0 : 1)), textposition: "outside",
    marker: { color: gaps.map((value) => modelColour(value >= 0 ? first : second)) },
  };
}

function histogramTable(data, chosen, counted) {
  const [one, other] = counted;
  const ofModel = (model, at) => ({
    title: markedLabel(data, data.models[model].name), numeric: true, cell: (i) => RANK.format(counted[at].counts[i]),
  });
  const gap = { title: "Difference", numeric: true, cell: (i) => signed(one.counts[i] - other.counts[i], 1) };
  const rank = { title: "Rank", header: true, cell: (i) => one.bins[i] };
  const table = createTable("Number of queries by rank", [rank, ...chosen.map(ofModel), ...(other ? [gap] : [])]);
  table.show(one.bins.map((_, i) => i));
  return table.element;
}
