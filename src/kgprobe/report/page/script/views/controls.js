// Header, sliders for alpha and beta, choice of queries and models, and tabs.

function createHeader(data, state) {
  const { facts, origin } = data.runs ? aboutRanks(data) : aboutWorlds(data);
  find("facts").replaceChildren(...facts.map(([name, text]) =>
    make("div", {}, make("dt", {}, name), make("dd", {}, text))));
  find("footer").replaceChildren(
    make("p", {}, `Written by kgprobe ${data.version}${data.written ? ` on ${data.written}` : ""}. `, origin),
    data.command ? commandLine(data.command) : "",
  );
  // The URL hash holds the state of the page, so the link sets the focus itself.
  find("skip").addEventListener("click", (event) => {
    event.preventDefault();
    find("results").focus();
  });
  const theme = find("theme");
  theme.addEventListener("change", () => state.update({ theme: theme.value }));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => state.changed(["theme"]));
  const draw = () => {
    theme.value = state.values.theme;
    const { dataset, style } = document.documentElement;
    dataset.theme = state.values.theme;
    (data.models ?? []).forEach((model, index) => style.setProperty(`--model-${index}`, modelColour(model)));
  };
  return { needs: ["theme"], live: true, draw };
}

function aboutRanks(data) {
  const facts = [
    ["Graph", data.graph ? label(data.graph.name) : "not given"],
    ["Models", whole(data.models.length)],
    ["Queries", whole(data.queries)],
    ["Ranks", data.exact ? (data.at ? `intervals at their ${data.at} end` : "exact") : "compressed, see Protocol"],
  ];
  const origin = `Scores are computed in the browser from the ${data.exact ? "ranks" : "counts"} in this file; `
    + "significance tests and the audit were computed when it was written.";
  return { facts, origin };
}

function aboutWorlds({ openWorld }) {
  const models = new Set(openWorld.flatMap((world) => world.models));
  const points = openWorld.reduce((total, world) => total + world.model.length, 0);
  const facts = [["Worlds", whole(openWorld.length)], ["Models", whole(models.size)], ["Points", whole(points)]];
  return { facts, origin: "All statistics were computed when it was written." };
}

function commandLine(command) {
  const code = make("code", { tabindex: "0" }, command);
  return make("div", { class: "command" }, code, make("p", { class: "actions" }, copyButton("Copy command", () => command)));
}

// Sliders and number fields for alpha and beta, presets, and wider ranges.

const PRESETS = [
  { name: "Like MRR", alpha: 1, beta: 0 },
  { name: "Logarithmic", alpha: 0, beta: 0 },
  { name: "Like mean rank", alpha: -1, beta: 0 },
  { name: "Sharp, rare targets", alpha: 1, beta: 0.8 },
  { name: "Tolerant, rare targets", alpha: -1, beta: 0.8 },
];

function createControls(data, state) {
  const names = ["alpha", "beta"];
  for (const name of names) {
    const [slider, field] = [find(name), find(`${name}-number`)];
    slider.step = 0.01;
    slider.addEventListener("input", () => state.update({ [name]: Number(slider.value) }));
    field.addEventListener("change", () => {
      const [low, high] = RANGES.wide[name];
      const wanted = field.value.trim() === "" ? NaN : Number(field.value);
      if (Number.isFinite(wanted)) state.update({ [name]: Math.min(Math.max(wanted, low), high) });
      drawDial(state, name); // also without a change: the field may hold an invalid number
    });
  }
  if (!data.hasPopularity) {
    for (const input of [find("beta"), find("beta-number")]) input.disabled = true;
    find("beta-why").hidden = false;
    const remedy = data.graph ? [] : [" Use ", make("code", {}, "--graph"), " to weight by popularity."];
    find("beta-why").replaceChildren(data.unweighed, ...remedy);
  }
  const usable = PRESETS.filter((preset) => data.hasPopularity || preset.beta === 0);
  const presets = usable.map(({ name, alpha, beta }) => button(name, () => state.update({ alpha, beta }), {
    title: pointText({ alpha, beta }),
  }));
  find("presets").replaceChildren(...presets);

  const wide = find("wide");
  const text = (name) => `${name} ${RANGES.wide[name].map(shortNumber).join(" to ")}`;
  find("wide-range").textContent = (data.hasPopularity ? names : ["alpha"]).map(text).join(", ");
  wide.addEventListener("change", () => {
    state.update(wide.checked ? { wide: "yes" } : { wide: "no", ...narrowed(state.values) });
  });

  const draw = () => {
    wide.checked = state.values.wide === "yes";
    names.forEach((name) => drawDial(state, name));
    presets.forEach((item, i) => {
      const { alpha, beta } = usable[i];
      item.setAttribute("aria-pressed", String(alpha === state.values.alpha && beta === state.values.beta));
    });
  };
  return { needs: ["alpha", "beta", "wide"], live: true, draw };
}

function drawDial(state, name) {
  const [slider, field] = [find(name), find(`${name}-number`)];
  const [low, high] = RANGES[state.values.wide === "yes" ? "wide" : "narrow"][name];
  slider.min = low;
  slider.max = high;
  slider.value = state.values[name];
  slider.setAttribute("aria-valuetext", shortNumber(state.values[name]));
  const [fieldLow, fieldHigh] = RANGES.wide[name];
  field.min = fieldLow;
  field.max = fieldHigh;
  field.value = state.values[name];
}

function narrowed(values) {
  const inside = ([name, [low, high]]) => [name, Math.min(Math.max(values[name], low), high)];
  return Object.fromEntries(Object.entries(RANGES.narrow).map(inside));
}

// The choice of queries by relation, side and popularity, and of models; it holds for all views.

function isFiltered({ relation, side, band }) {
  return [relation, side, band].some((code) => code !== ALL);
}

// The chosen queries in words; empty for all queries.
function choiceWords(data, { relation, side, band }) {
  return [
    relation === ALL ? null : ["relation ", label(data.relations[relation])],
    side === ALL ? null : SIDE_WORDS[side],
    band === ALL ? null : ["target ", data.bandWords[band]],
  ].filter((words) => words !== null);
}

function createFilters(data, state) {
  const sizes = data.exact ? relationSizes(data) : null;
  const order = data.relations.map((_, relation) => relation);
  if (sizes) order.sort((one, other) => sizes[other] - sizes[one] || one - other);
  const named = (relation) => `${data.relations[relation]}${sizes ? ` (${whole(sizes[relation])})` : ""}`;
  const choices = [
    ["relation", "Relation", "all relations", order.map((relation) => [relation, named(relation)])],
    ["side", "Side", "both sides", SIDE_WORDS.map((words, side) => [side, words])],
    ["band", "Target", "all targets", (data.bandWords ?? []).map((words, band) => [band, words])],
  ].filter(([, , , options]) => options.length > 1);
  const selects = choices.map(([key, title, all, options]) => {
    const select = make("select", { id: key, dir: "auto" }, [[ALL, all], ...options].map(([value, text]) =>
      make("option", { value }, text)));
    select.addEventListener("change", () => state.update({ [key]: Number(select.value), page: 1, groupsPage: 1 }));
    return [key, select, make("label", { class: "pick", for: key }, title, " ", select)];
  });
  find("filters-list").replaceChildren(...selects.map(([, , element]) => element));
  const clear = button("All queries", () => state.update({ relation: ALL, side: ALL, band: ALL, page: 1 }), { id: "all-queries" });
  const line = find("choice");

  const draw = () => {
    const chosen = state.chosen();
    selects.forEach(([key, select]) => { select.value = state.values[key]; });
    const words = choiceWords(data, state.values);
    const total = data.exact ? plural(data.queries, "query", "queries") : `${whole(data.counted)} sampled queries`;
    find("filters-count").textContent = words.length
      ? `${whole(chosen.counted)} of ${whole(data.counted)}` : `all ${whole(data.queries)}`;
    line.hidden = !words.length;
    line.replaceChildren(`Only ${whole(chosen.counted)} of ${total}: `, ...listed(words).flat(), ". ", clear);
  };
  openWide("filters", isFiltered(state.values));
  return { needs: CHOICE, live: true, draw };
}

function relationSizes(data) {
  const sizes = data.relations.map(() => 0);
  for (let row = 0; row < data.counted; row += 1) sizes[data.arrays.relation[data.arrays.triple[row]]] += 1;
  return sizes;
}

function createModels(data, state) {
  const update = (hidden) => state.update({ hidden: hidden.sort((one, other) => one - other) });
  const boxes = data.models.map((_, index) => {
    const box = make("input", { type: "checkbox", value: index });
    box.addEventListener("change", () => {
      const { hidden } = state.values;
      update(box.checked ? hidden.filter((model) => model !== index) : [...hidden, index]);
    });
    return box;
  });
  const lines = data.models.map((_, index) => make("label", { class: "check" }, boxes[index], modelName(data, index)));
  const all = button("Show all", () => update([]));
  const two = button("Best two", () => {
    const best = bestFirst(selected(data, { ...state.values, hidden: [] }), state.values.alpha, state.values.beta).slice(0, 2);
    update(data.shown.filter((model) => !best.includes(model)));
  });
  find("models").hidden = data.models.length === 1;
  find("models-list").replaceChildren(make("div", { class: "names" }, lines),
    make("p", { class: "actions small" }, all, data.models.length > 2 ? two : null));

  const draw = () => {
    const { shown } = state.chosen();
    boxes.forEach((box, index) => {
      box.checked = shown.includes(index);
      box.disabled = shown.length === 1 && box.checked; // one model stays
    });
    const count = shown.length === boxes.length ? `all ${whole(boxes.length)}` : `${whole(shown.length)} of ${whole(boxes.length)}`;
    find("models-count").textContent = `${count} shown`;
  };
  openWide("models", state.values.hidden.length > 0);
  return { needs: ["hidden"], live: true, draw };
}

// Open where there is room, and where something is chosen.
function openWide(id, chosen) {
  find(id).open = chosen || matchMedia("(min-width: 40rem)").matches;
}

// Tabs with arrow-key navigation; only the selected panel is shown and drawn.

function createTabs(data, state) {
  const panels = [...document.querySelectorAll("[role=tabpanel]")];
  const keyOf = (panel) => panel.id.replace("panel-", "");
  const counts = { audit: data.findings.length };
  const tabs = panels.map((panel) => {
    const key = keyOf(panel);
    const title = key === "map" && data.models.length === 1 ? "Score map" : panel.dataset.title;
    const attributes = { role: "tab", id: `tab-${key}`, "aria-controls": panel.id };
    return button(title, () => state.update({ tab: key }), attributes);
  });
  panels.forEach((panel, i) => {
    const count = counts[keyOf(panel)];
    if (count) tabs[i].append(" ", make("span", { class: "count" }, whole(count), unseen(" findings")));
    panel.prepend(make("h2", { class: "panel-title" }, tabs[i].firstChild.textContent));
  });
  const bar = find("tabs");
  bar.replaceChildren(...tabs);

  const MOVES = { ArrowLeft: (i) => i - 1, ArrowRight: (i) => i + 1, Home: () => 0, End: () => tabs.length - 1 };
  bar.addEventListener("keydown", (event) => {
    const move = MOVES[event.key];
    if (!move) return;
    event.preventDefault();
    const next = (move(tabs.indexOf(document.activeElement)) + tabs.length) % tabs.length;
    tabs[next].focus();
    tabs[next].click();
  });

  const draw = () => panels.forEach((panel, i) => {
    const chosen = keyOf(panel) === state.values.tab;
    panel.hidden = !chosen;
    tabs[i].setAttribute("aria-selected", String(chosen));
    tabs[i].tabIndex = chosen ? 0 : -1;
    if (chosen) bar.scrollLeft = tabs[i].offsetLeft - (bar.clientWidth - tabs[i].clientWidth) / 2;
  });
  return { needs: ["tab"], live: true, draw };
}
