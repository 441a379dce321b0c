/* A study's page: what the server tells is kept here, and drawn a few times a second. */
(() => {
  "use strict";
  const { by, make, number, show, lasted, count, chart } = view;
  const AGAIN_MS = 1500;
  const MOST_CURVES = 400;
  const ROW = 17;  // of the timeline, in pixels
  const MOST_WORKERS = 40;
  const LIVE = ["running", "stopping"];
  const COLOURS = {
    finished: "good", stopped: "s4", paused: "s4", running: "s2", lost: "best", killed: "bad", raised: "bad",
    unusable: "bad", "timed out": "bad", "out of memory": "bad", invalid: "s3",
  };
  const WORDS = { good: "finished", s4: "stopped or paused", bad: "failed", best: "lost with its worker", s3: "invalid", s2: "running" };

  let head = null;
  let trials = [];  // by number
  let parameters = [];
  let curves = new Map();  // trial -> {steps, values}
  let spans = [];
  let underWay = [];
  let best = [];
  let now = 0;

  const forget = () => { trials = []; curves = new Map(); spans = []; underWay = []; best = []; };

  const take = (rows) => {
    if (rows.whole) forget();
    parameters = rows.parameters;
    now = rows.now ?? 0;
    for (const row of rows.trials) {
      const one = {};
      rows.columns.forEach((name, nth) => { one[name] = row[nth]; });
      trials[one.trial] = one;
    }
    for (const { trial, after, steps, values } of rows.curves) {
      const known = after ? curves.get(trial) : null;
      const kept = known ? known.steps.findIndex((step) => step > after) : 0;
      const upto = known ? (kept < 0 ? known.steps.length : kept) : 0;
      curves.delete(trial);  // so that the map's order is that of growing
      curves.set(trial, {
        steps: [...(known?.steps.slice(0, upto) ?? []), ...steps],
        values: [...(known?.values.slice(0, upto) ?? []), ...values.map(number)],
      });
    }
    spans.push(...rows.spans);
    underWay = rows.under_way;
    best.push(...rows.best);
    const champion = best[best.length - 1];
    for (const trial of curves.keys()) {
      if (curves.size <= MOST_CURVES) break;
      if (!LIVE.includes(trials[trial]?.state) && trial !== champion) curves.delete(trial);
    }
  };

  // --- what is drawn --------------------------------------------------------------------------------

  const main = () => Object.keys(head.metrics)[0];
  const pick = (trial) => { if (trial !== undefined) view.detail.open(trial, head.watched); };
  const caption = (name, title, told, label) => {
    const figure = by(name);
    figure.hidden = false;
    figure.querySelector("h3").textContent = title;
    figure.querySelector("figcaption").textContent = told;
    figure.querySelector("canvas").setAttribute("aria-label", label);
  };
  const tells = (one) => () => [
    `trial ${one.trial}: ${one.state}`,
    ...Object.keys(head.metrics).map((name, nth) => one.values[nth] === null ? "" : `${name}: ${show(one.values[nth])}`),
    ...parameters.slice(0, 8).map((name, nth) => isMissing(one.params[nth]) ? "" : `${name}: ${show(one.params[nth])}`),
  ].filter(Boolean).join("\n");
  const isMissing = (value) => value === null || value === undefined;

  const figures = {
    best: chart.figure(by("best").querySelector("canvas"), (pen, wide, high) => {
      const done = trials.filter((one) => one && one.ended !== null && Number.isFinite(number(one.values[0])));
      if (!done.length) return [];
      done.sort((a, b) => a.ended - b.ended);
      const at = chart.axes(pen, wide, high, {
        x: [0, Math.max(now, 1)], y: chart.reach(done.map((one) => one.values[0])), xName: "time", yName: main(), xShow: lasted,
      });
      pen.fillStyle = chart.colour("mute");
      pen.globalAlpha = done.length > 2000 ? 0.45 : 0.75;
      const marks = done.map((one) => ({ x: at.x(one.ended), y: at.y(one.values[0]), tells: tells(one), trial: one.trial }));
      for (const { x, y } of marks) pen.fillRect(x - 2.5, y - 2.5, 5, 5);
      pen.globalAlpha = 1;
      const line = best.map((trial) => trials[trial]).filter((one) => one && Number.isFinite(number(one.values[0])));
      const points = line.map((one) => [at.x(one.ended), at.y(one.values[0])]);
      if (points.length) chart.line(pen, [...points, [at.right, points[points.length - 1][1]]], { stroke: chart.colour("best"), wide: 2, steps: true });
      return marks;
    }, pick),
    curves: chart.figure(by("curves").querySelector("canvas"), (pen, wide, high) => {
      if (!curves.size) return [];
      let [last, values] = [2, []];
      for (const one of curves.values()) {
        last = Math.max(last, one.steps[one.steps.length - 1]);
        values = values.concat(one.values);
      }
      const at = chart.axes(pen, wide, high, { x: [0, last], y: chart.reach(values), xName: "report", yName: head.watched });
      const marks = [];
      const champion = best[best.length - 1];
      const paint = (trial, stroke, width, faint) => {
        const one = curves.get(trial);
        const points = one.steps.map((step, nth) => [step, one.values[nth]]).filter(([, value]) => Number.isFinite(value)).map(([step, value]) => [at.x(step), at.y(value), step]);
        chart.line(pen, points, { stroke, wide: width, faint });
        for (const [x, y, nth] of points) marks.push({ x, y, tells: tells(trials[trial]), trial, nth });
      };
      const live = [];
      for (const trial of curves.keys()) {
        if (trial === champion) continue;
        if (LIVE.includes(trials[trial].state)) live.push(trial);
        else paint(trial, chart.colour(trials[trial].state === "finished" ? "mute" : "bad"), 1, 0.55);
      }
      for (const trial of live) paint(trial, chart.colour("s2"), 1.6, 1);
      if (curves.has(champion)) paint(champion, chart.colour("best"), 2.4, 1);
      return marks;
    }, pick),
    timeline: chart.figure(by("timeline").querySelector("canvas"), (pen, wide, high) => {
      const rows = workers();
      const until = Math.max(now, 1);
      const left = Math.min(140, wide / 4);
      const place = (seconds) => left + (seconds / until) * (wide - left - chart.PAD.right);
      pen.textBaseline = "middle";
      pen.textAlign = "right";
      [...rows.keys()].forEach((name, nth) => {
        if (nth % 2 === 0) { pen.fillStyle = chart.colour("wash"); pen.fillRect(left, nth * ROW, wide - left - chart.PAD.right, ROW); }
        pen.fillStyle = chart.colour("soft");
        pen.fillText(name.length > 20 ? `${name.slice(0, 9)}…${name.slice(-9)}` : name, left - 8, nth * ROW + ROW / 2);
      });
      const marks = [];
      for (const [worker, trial, attempt, start, end, how] of [...spans, ...underWay]) {
        if (!rows.has(worker)) continue;
        const [x, y] = [place(start), rows.get(worker) * ROW];
        const broad = Math.max(0.8, place(how === "running" ? until : end) - x - 0.4);
        pen.fillStyle = chart.colour(COLOURS[how] ?? "mute");
        pen.fillRect(x, y + 2.5, broad, ROW - 5);
        marks.push({ x, y: y + ROW / 2, wide: broad, trial, nth: attempt, tells: () => `trial ${trial}, attempt ${attempt}: ${how}\n${worker}` });
      }
      pen.fillStyle = chart.colour("soft");
      pen.textAlign = "center";
      pen.textBaseline = "top";
      for (const value of chart.ticks(0, until, Math.max(2, Math.floor(wide / 120)))) pen.fillText(lasted(value), place(value), rows.size * ROW + 5);
      return marks;
    }, pick),
  };

  /* Workers by name -> row: those that were at something last. */
  const workers = () => {
    const last = new Map();
    for (const [worker, , , start] of [...spans, ...underWay]) last.set(worker, Math.max(start, last.get(worker) ?? 0));
    const names = [...last.keys()].sort((a, b) => last.get(b) - last.get(a)).slice(0, MOST_WORKERS);
    return new Map(names.sort((a, b) => a.localeCompare(b, "en", { numeric: true })).map((name, nth) => [name, nth]));
  };

  const cards = () => {
    const n = (...states) => states.reduce((sum, state) => sum + (head.counts[state] ?? 0), 0);
    const all = Object.values(head.counts).reduce((sum, one) => sum + one, 0);
    const champion = trials[best[best.length - 1]];
    const pairs = [
      ["Trials", head.planned && head.planned > all ? `${all.toLocaleString("en")} of ${head.planned.toLocaleString("en")}` : all.toLocaleString("en")],
      ["Running", n("running", "stopping")],
      ["Finished", n("finished").toLocaleString("en")],
      ["Stopped early", n("stopped").toLocaleString("en")],
      ["Failed", n("failed").toLocaleString("en")],
      ["Invalid", n("invalid").toLocaleString("en")],
      ["Waiting", n("queued", "paused").toLocaleString("en")],
      [champion ? `Best ${main()}` : "", champion ? show(champion.values[0]) : ""],
      ["Since it began", lasted(now)],
    ].filter(([label, text]) => label && text !== "0" || ["Running", "Failed"].includes(label));
    by("cards").replaceChildren(...pairs.map(([label, text]) => {
      const one = make("div");
      one.append(make("dt", label), make("dd", String(text)));
      return one;
    }));
  };

  const columns = () => {
    const there = trials.some((one) => one?.arm !== null && one !== undefined);
    return [
      { name: "trial", of: (one) => one.trial, numeric: true },
      { name: "state", of: (one) => one.state },
      ...(there ? [{ name: "arm", of: (one) => one.arm }] : []),
      ...Object.keys(head.metrics).map((name, nth) => ({ name, of: (one) => one.values[nth], numeric: true })),
      { name: "reports", of: (one) => one.reports || null, numeric: true },
      { name: `last ${head.watched}`, of: (one) => one.last, numeric: true },
      ...parameters.map((name, nth) => ({ name, of: (one) => one.params[nth], numeric: trials.some((one) => typeof one?.params[nth] === "number") })),
      { name: "took", of: took, told: (one) => lasted(took(one)), numeric: true },
      { name: "worker", of: (one) => one.worker },
      { name: "reason", of: (one) => one.reason },
    ].filter((column) => ["trial", "state"].includes(column.name) || trials.some((one) => one && !isMissing(column.of(one)) && column.of(one) !== ""));
  };
  const took = (one) => one.started === null ? null : (one.ended ?? (LIVE.includes(one.state) ? now : null)) === null ? null : (one.ended ?? now) - one.started;

  const VERBS = { tune: "Search", ablate: "Ablation", fit: "Final training" };
  const paint = () => {
    asked = false;
    if (!head) return;
    by("verb").textContent = VERBS[head.verb] ?? "Study";
    by("standing").textContent = head.standing;
    by("standing").classList.toggle("warn", head.standing === "not complete");
    by("simulated").hidden = !head.simulated;
    by("trouble").hidden = !head.trouble;
    by("trouble").textContent = head.trouble;
    const [first, ...rest] = head.says;
    by("result").textContent = first ?? "";
    by("says").replaceChildren(...rest.map((one) => make("li", one)));
    if (by("stop")) by("stop").hidden = head.standing !== "at work";
    cards();
    const known = trials.filter(Boolean);
    const judged = known.filter((one) => one.ended !== null && Number.isFinite(number(one.values[0]))).length;
    if (judged) caption("best", `${main()} over time`, best.length ? "A point is a trial; the line is the best so far." : "A point is a trial.", `${main()} of ${count(judged, "trial")} over time${best.length ? `; the best so far is ${show(trials[best[best.length - 1]]?.values[0])}` : ""}`);
    if (curves.size) caption("curves", `How ${head.watched} grows`, "Running trials are green, the best one orange, those that did not finish red.", `Learning curves of ${count(curves.size, "trial")}`);
    const rows = workers();
    if (rows.size) {
      const used = new Set([...spans, ...underWay].map(([, , , , , how]) => COLOURS[how] ?? "mute"));
      const told = Object.entries(WORDS).filter(([name]) => used.has(name)).map(([name, word]) => `${TONES[name]}: ${word}`).join("; ");
      caption("timeline", "What each did when", `${told}.`, `What ${count(rows.size, "worker")} did: ${count(spans.length, "attempt")} ended, ${underWay.length} under way`);
      by("timeline").querySelector("canvas").style.height = `${rows.size * ROW + 26}px`;
    }
    for (const figure of Object.values(figures)) figure.redraw();
    view.trials.update(known, columns(), Object.keys(head.counts).sort());
    toggle("workers", rows.size > 0);
    toggle("progress", judged > 0 || curves.size > 0);
    const shown = seq;
    requestAnimationFrame(() => { document.body.dataset.seq = shown; });  // the figures are drawn in that frame, before
  };
  const TONES = { good: "blue", s4: "light blue", bad: "red", best: "orange", s3: "pink", s2: "green" };
  const toggle = (name, on) => {
    by(name).hidden = !on;
    document.querySelector(`nav a[href="#${name}"]`).parentElement.hidden = !on;
  };
  toggle("verdicts", false);
  toggle("workers", false);
  toggle("progress", false);

  let asked = false;
  let seq = "";
  const repaint = () => { if (!asked) { asked = true; requestAnimationFrame(paint); } };

  // --- the line to the server -----------------------------------------------------------------------

  const say = (text) => { by("line").textContent = text; };
  let away = false;  // what else is said stays: news come many times a second
  const lost = async () => {
    try {
      const answer = await fetch(location.pathname);
      if (answer.status === 403 || answer.status === 404) {
        say((await answer.json()).error);
        return;
      }
    } catch { /* it does not answer at all */ }
    say("The server does not answer; trying again.");
    away = true;
    setTimeout(listen, AGAIN_MS);
  };
  const listen = () => {
    const line = new EventSource(`${view.base}/events?after=${encodeURIComponent(seq)}`);
    line.addEventListener("study", (event) => {
      const told = JSON.parse(event.data);
      if (away) say("");
      away = false;
      head = told.head;
      if (told.rows) take(told.rows);
      seq = event.lastEventId;
      repaint();
    });
    line.addEventListener("verdicts", (event) => {
      // The server has made it of its own words, all others escaped; and the page's policy runs no script in it.
      by("judged").innerHTML = event.data ? JSON.parse(event.data).html : "";
      toggle("verdicts", Boolean(event.data));
    });
    line.addEventListener("error", () => { line.close(); lost(); });
  };

  view.trials.picked(pick);
  view.detail.liveness((trial) => LIVE.includes(trials[trial]?.state));
  by("stop")?.addEventListener("click", async () => {
    if (!confirm("Have this study wind down? What has ended is kept, and it can go on later.")) return;
    const answer = await fetch(`${view.base}/stop`, { method: "POST" });
    say(answer.ok ? "The study was asked to stop." : (await answer.json()).error);
  });
  listen();
})();
