/* All about one trial, in a dialog: what it was given, what it said, what it printed. */
view.detail = (() => {
  "use strict";
  const LOOK_MS = 1000;
  const MOST = 1000000;  // characters of a log that are kept
  const { by, make, record, show, count, number, chart } = view;
  const dialog = by("detail");
  let shown = null;  // the trial's number while the dialog is open
  let told = null;
  let seen = 0;  // bytes of the log
  let timer = 0;
  let isLive = () => false;

  const plain = (text) => text.replace(/\u001b\[[0-9;?]*[A-Za-z]/g, "").replace(/[^\n]*\r(?!\n)/g, "");

  const figure = chart.figure(by("detail-curve"), (pen, wide, high) => {
    if (!told) return [];
    const metric = told.watched;
    const points = told.reports.map((one) => [one.step, number(one[metric])]).filter(([, value]) => Number.isFinite(value));
    if (!points.length) return [];
    const last = points[points.length - 1][0];
    const at = chart.axes(pen, wide, high, { x: [0, Math.max(last, 2)], y: chart.reach(points.map(([, value]) => value)), xName: "report", yName: metric });
    chart.line(pen, points.map(([step, value]) => [at.x(step), at.y(value)]), { stroke: chart.colour("good"), wide: 2 });
    return points.map(([step, value]) => ({ x: at.x(step), y: at.y(value), nth: step, tells: () => `report ${step}: ${show(value)}` }));
  });

  const readLog = async () => {
    clearTimeout(timer);
    if (shown === null) return;
    const [trial, attempt] = [shown, by("attempt").value];
    try {
      const answer = await fetch(`${view.base}/trials/${trial}/log/${attempt}${seen ? `?after=${seen}` : ""}`);
      const found = await answer.json();
      if (trial !== shown || attempt !== by("attempt").value) return;
      const log = by("log");
      const atEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 4;
      if (found.cut) by("log-note").textContent = "Its beginning is left out: see the study's folder.";
      if (found.end > seen) log.append(plain(found.text));
      if (log.textContent.length > MOST) log.textContent = log.textContent.slice(-MOST / 2);
      seen = found.end;
      log.hidden = !log.textContent;
      if (!log.textContent) by("log-note").textContent = "It printed nothing.";
      else if (by("log-note").textContent === "It printed nothing.") by("log-note").textContent = "";
      if (atEnd) log.scrollTop = log.scrollHeight;
    } catch { by("log-note").textContent = "The server does not answer."; }
    if (isLive(trial)) timer = setTimeout(readLog, LOOK_MS);
  };

  const startLog = () => {
    seen = 0;
    by("log").textContent = "";
    by("log-note").textContent = "";
    readLog();
  };
  by("attempt").addEventListener("change", startLog);

  const fill = (all, watched) => {
    told = { ...all, watched };
    const told_ = (values) => Object.entries(values).map(([name, value]) => `${name} = ${show(value)}`).join("\n");
    const body = by("detail-body");
    body.replaceChildren(record([
      ["State", all.state],
      ["Result", told_(all.values)],
      ["Configuration", told_(all.params)],
      ["Goes without", all.arm],
      ["Began with", all.start],
      ["Seed", show(all.seed)],
      ["Why", all.reason],
      ["Returned beside it", told_(all.metrics)],
      ["Took", all.took],
      ["Most memory", all.memory],
      ["Attempts", all.attempts ? show(all.attempts) : ""],
      ["Same as", all.same_as === null ? "" : `trial ${all.same_as}`],
      ["Taken from", all.reused_from ? `trial ${all.reused_from[1]} of ${all.reused_from[0]}` : ""],
    ]));
    for (const one of body.querySelectorAll("dd")) one.style.whiteSpace = "pre-line";
    if (all.traceback) {
      const trace = make("pre", all.traceback);
      trace.tabIndex = 0;
      trace.setAttribute("role", "region");
      trace.setAttribute("aria-label", "Traceback");
      body.append(make("h3", "Traceback"), trace);
    }
    const curve = by("detail-curve");
    curve.hidden = !all.reports.length;
    curve.setAttribute("aria-label", `${count(all.reports.length, "report")} of ${watched}`);
    figure.redraw();
    by("detail-log").hidden = !all.attempts;
    by("log").hidden = true;
    by("attempt").replaceChildren(...Array.from({ length: all.attempts }, (_, nth) => new Option(nth + 1, nth + 1)));
    by("attempt").value = all.attempts;
  };

  const open = async (trial, watched) => {
    const answer = await fetch(`${view.base}/trials/${trial}`);
    const all = await answer.json();
    by("detail-title").textContent = `Trial ${trial}`;
    shown = trial;
    told = null;
    if (answer.ok) fill(all, watched);
    else by("detail-body").replaceChildren(make("p", all.error, "broken"));
    if (!dialog.open) dialog.showModal();
    if (answer.ok && all.attempts) startLog();
  };
  by("detail-close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => { shown = null; clearTimeout(timer); });

  return { open, liveness(call) { isLive = call; } };
})();
