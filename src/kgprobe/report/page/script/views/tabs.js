// Tabs that the arrow keys move between; only the chosen panel is shown and drawn.

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
