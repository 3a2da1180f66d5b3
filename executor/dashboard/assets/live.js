// Live figures: what /live says goes into the places that are named for it, and into
// the charts. Without it the pages are the same, and stand still.
"use strict";
(() => {
  const $$ = (selector) => document.querySelectorAll(selector);
  const charts = {
    rate: { series: [["processed", "--series-a", true], ["failed", "--series-b", false]], least: 1 },
    lag: { series: [["lag", "--series-a", true]], least: 1 },
    commit: { series: [["commit", "--series-a", true]], least: 1 },
  };
  const most = 300;
  const beat = 1000; // ms between two figures
  const gap = 5 * beat; // behind which a line breaks
  let past = [];
  let next = 0; // the timer of the next question, -1 while one is asked; 0: none will be
  let drawn = [];

  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  // What nobody watched is a gap in the line: one row without figures.
  const rows = () => past.flatMap((p, i) => i && p.at - past[i - 1].at > gap ? [{ at: past[i - 1].at + 1 }, p] : [p]);
  const columns = (chart, all = rows()) =>
    [all.map((p) => p.at / 1000), ...chart.series.map(([name]) => all.map((p) => p[name] ?? null))];

  // draw makes the charts anew: when the page is there, and when its colours change.
  function draw() {
    drawn.forEach((d) => d.plot.destroy());
    drawn = [];
    $$("[data-chart]").forEach((box) => {
      const chart = charts[box.dataset.chart];
      const axis = { stroke: color("--soft"), grid: { stroke: color("--grid"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
      const plot = new uPlot({
        width: box.clientWidth - 24,
        height: 130,
        legend: { show: false },
        cursor: { sync: { key: "live" }, y: false, points: { size: 5 } },
        scales: { y: { range: (u, low, high) => [0, Math.max(chart.least, (high || 0) * 1.15)] } },
        axes: [
          { ...axis, size: 24, space: 70, values: [[60, "{H}:{mm}", null, null, null, null, null, null, 1], [1, "{H}:{mm}:{ss}", null, null, null, null, null, null, 1]] },
          { ...axis, size: 44, space: 32, grid: axis.grid },
        ],
        series: [{}, ...chart.series.map(([name, line, fill]) => ({
          label: name, stroke: color(line), width: 1.5, points: { show: false }, fill: fill ? color("--fill-a") : undefined,
        }))],
      }, columns(chart), box);
      drawn.push({ box, chart, plot });
    });
  }

  function take(figures) {
    past = past.concat(figures.past.map((p) => ({ ...p.rates, at: p.at, lag: p.lag }))).slice(-most);
    drawn.forEach((d) => d.plot.setData(columns(d.chart)));
    $$("[data-live]").forEach((place) => {
      const text = figures.cells[place.dataset.live];
      if (text === undefined || place.textContent === text) return;
      place.textContent = text;
      place.classList.toggle("zero", text === "0" || text === "–");
    });
    const table = document.querySelector("[data-shape]");
    if (table && figures.shape !== table.dataset.shape) {
      table.dataset.shape = figures.shape;
      htmx.ajax("GET", location.href, { target: "#" + table.id, select: "#" + table.id, swap: "outerHTML" });
    }
  }

  function pulse(on, text) {
    const light = document.getElementById("pulse");
    if (!light) return;
    light.hidden = false;
    light.className = "pulse " + (on ? "on" : "off");
    light.title = text;
    const says = on ? light.dataset.says : "not live";
    if (light.textContent !== says) light.textContent = says;
  }

  // Times that a page says as seen from now go on with the clock, as package dashboard
  // writes them: the server's, which said when it made the page.
  const ahead = Date.now() - Date.parse(document.getElementById("now").dateTime);
  const units = [[31536e6, 864e5, "y", "d"], [864e5, 36e5, "d", "h"], [36e5, 6e4, "h", "min"], [6e4, 1e3, "min", "s"]];
  function span(ms) {
    if (ms < 1000) return Math.floor(ms) + " ms";
    if (ms < 10000) return Math.floor(ms / 100) / 10 + " s";
    for (const [length, part, name, of] of units) {
      if (ms < length) continue;
      const rest = Math.floor(ms % length / part);
      return Math.floor(ms / length) + " " + name + (rest > 0 && ms < 100 * length ? " " + rest + " " + of : "");
    }
    return Math.floor(ms / 1000) + " s";
  }
  function tick() {
    if (document.hidden) return;
    const now = Date.now() - ahead;
    $$("time[data-ago]").forEach((time) => {
      const ms = now - Date.parse(time.dateTime);
      const text = ms < -1000 ? "in " + span(-ms) : ms < 1000 ? "now" : span(ms) + " ago";
      if (time.textContent !== text) time.textContent = text;
    });
  }

  // A page that nobody sees asks nothing.
  async function ask() {
    next = document.hidden ? 0 : -1;
    if (!next) return;
    let wait = beat;
    try {
      const answer = await fetch("live?after=" + (past.length ? past[past.length - 1].at : 0));
      if (!answer.ok) throw new Error(answer.statusText);
      take(await answer.json());
      pulse(true, "Live");
    } catch {
      pulse(false, "Not live: the connection is lost");
      wait = gap;
    }
    next = setTimeout(ask, wait);
  }
  function listen() {
    if (!next && $$("[data-live], [data-chart]").length > 0) ask();
  }

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return;
    tick();
    listen();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  addEventListener("resize", () => drawn.forEach((d) => d.plot.setSize({ width: d.box.clientWidth - 24, height: 130 })));
  // One box at the top of a list ticks all of it.
  document.addEventListener("change", (e) => {
    if (!e.target.matches("[data-all]")) return;
    e.target.form.querySelectorAll("[name=sel]").forEach((box) => { box.checked = e.target.checked; });
  });
  // "/" goes to the search, as people expect.
  document.addEventListener("keydown", (e) => {
    if (e.key !== "/" || e.ctrlKey || e.metaKey || e.altKey || e.target.matches("input, select, textarea")) return;
    e.preventDefault();
    document.querySelector(".find input").focus();
  });

  document.querySelector(".tabs [aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });
  draw();
  setInterval(tick, 1000);
  listen();
})();
