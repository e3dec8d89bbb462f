// The two dials: a slider and a number each, presets, and wider ranges.

const PRESETS = [
  { name: "Like MRR", alpha: 1, beta: 0 },
  { name: "Logarithmic", alpha: 0, beta: 0 },
  { name: "Like mean rank", alpha: -1, beta: 0 },
  { name: "Sharp, rare answers", alpha: 1, beta: 0.8 },
  { name: "Tolerant, rare answers", alpha: -1, beta: 0.8 },
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
      drawDial(state, name); // also when nothing changed: the field may hold what is no number
    });
  }
  if (!data.hasPopularity) {
    for (const input of [find("beta"), find("beta-number")]) input.disabled = true;
    find("beta-why").hidden = false;
    const remedy = data.graph ? [] : [" Give ", make("code", {}, "--graph"), " to weigh rare answers."];
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
