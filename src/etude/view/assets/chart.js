/* Figures on canvases, in the page's colours; they stay quick with ten thousand marks. */
view.chart = (() => {
  "use strict";
  const PAD = { left: 62, right: 12, top: 10, bottom: 34 };
  const REACH = 14;  // pixels from a mark at which the pointer is on it
  const { by, make } = view;
  const tip = by("tip");

  let colours = {};  // while one figure is drawn: to ask for one takes longer than to draw a mark
  const colour = (name) => colours[name] ??= getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

  const ticks = (low, high, most) => {
    const raw = (high - low) / most;
    if (!(raw > 0)) return [low];
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= raw);
    const found = [];
    for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9; at += step) found.push(Number(at.toPrecision(12)));
    return found;
  };

  /* Where most values are: a few that are far away do not flatten the rest, and lie on the edge. */
  const reach = (values) => {
    const sorted = values.filter(Number.isFinite).sort((a, b) => a - b);
    if (!sorted.length) return [0, 1];
    const at = (share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
    let [low, high] = [sorted[0], sorted[sorted.length - 1]];
    const middle = at(0.97) - at(0.03);
    if (middle > 0 && high - low > 6 * middle) [low, high] = [Math.max(low, at(0.03) - middle / 2), Math.min(high, at(0.97) + middle / 2)];
    const room = (high - low) * 0.05 || Math.abs(high) * 0.05 || 0.5;
    return [low - room, high + room];
  };

  /* A canvas with marks; ``paint`` draws them anew and returns those that pointer and keys can find, in the keys' order:
     {x, y, wide?, tells, trial, nth?}. By ``trial`` and ``nth`` a mark is known again when it has been drawn anew. */
  const figure = (canvas, paint, onPick) => {
    const how = `Arrow keys go from mark to mark${onPick ? ", up and down from trial to trial; Enter opens it" : ""}.`;
    const said = make("p", null, "unseen");
    said.setAttribute("aria-live", "polite");
    canvas.after(said);
    let marks = [];
    let held = null;  // the mark that the keys are at
    let asked = false;
    const place = () => held ? marks.findIndex((one) => one.trial === held.trial && one.nth === held.nth) : -1;
    const draw = () => {
      asked = false;
      colours = {};
      const wide = canvas.clientWidth;
      if (!wide) return;
      const ratio = window.devicePixelRatio || 1;
      const high = canvas.clientHeight;
      if (canvas.width !== Math.round(wide * ratio) || canvas.height !== Math.round(high * ratio)) {
        canvas.width = Math.round(wide * ratio);
        canvas.height = Math.round(high * ratio);
      }
      const pen = canvas.getContext("2d");
      pen.setTransform(ratio, 0, 0, ratio, 0, 0);
      pen.clearRect(0, 0, wide, high);
      pen.font = `11px ${getComputedStyle(document.body).fontFamily}`;
      marks = paint(pen, wide, high) || [];
      const mark = document.activeElement === canvas ? marks[place()] : null;
      if (!mark) return;
      pen.strokeStyle = colour("ink");
      pen.lineWidth = 2;
      pen.strokeRect(mark.x - 6, mark.y - 6, (mark.wide ?? 0) + 12, 12);
    };
    const redraw = () => { if (!asked) { asked = true; requestAnimationFrame(draw); } };
    new ResizeObserver(redraw).observe(canvas);
    new MutationObserver(redraw).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    const nearest = (event) => {
      const box = canvas.getBoundingClientRect();
      const [x, y] = [event.clientX - box.left, event.clientY - box.top];
      let found = null, best = REACH * REACH;
      for (const mark of marks) {
        const across = mark.wide ? Math.max(0, mark.x - x, x - mark.x - mark.wide) : mark.x - x;
        const far = across * across + (mark.y - y) ** 2;
        if (far <= best) { best = far; found = mark; }
      }
      return found;
    };
    const tell = (mark, x, y) => {
      tip.hidden = !mark;
      if (!mark) return;
      const top = canvas.closest("dialog") ?? document.body;  // what is outside of an open dialog lies behind it
      if (tip.parentNode !== top) top.append(tip);
      tip.textContent = mark.tells();
      tip.style.left = `${Math.max(8, Math.min(x + 14, innerWidth - tip.offsetWidth - 8))}px`;
      tip.style.top = `${Math.max(8, Math.min(y + 14, innerHeight - tip.offsetHeight - 8))}px`;
    };
    canvas.addEventListener("pointermove", (event) => {
      const mark = nearest(event);
      canvas.style.cursor = mark ? "pointer" : "";
      tell(mark, event.clientX, event.clientY);
    });
    canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
    canvas.addEventListener("click", (event) => { const mark = nearest(event); if (mark) onPick?.(mark.trial); });

    const say = (mark) => {
      const box = canvas.getBoundingClientRect();
      tell(mark, box.left + mark.x, box.top + mark.y);
      said.textContent = tip.textContent;
      redraw();
    };
    /* Which mark a key leads to; none if it is not one of ours. */
    const next = (key) => {
      if (key === "Home") return 0;
      if (key === "End") return marks.length - 1;
      const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[key];
      if (!step) return null;
      const from = place();
      let to = from + step;
      if (key === "ArrowUp" || key === "ArrowDown") while (marks[to] && marks[to].trial === marks[from]?.trial) to += step;
      return Math.max(0, Math.min(marks.length - 1, to));
    };
    canvas.addEventListener("keydown", (event) => {
      if (event.altKey || event.ctrlKey || event.metaKey || !marks.length) return;
      const to = next(event.key);
      if (event.key === "Enter" && held) onPick?.(held.trial);
      if (to === null) return;
      event.preventDefault();  // else the page is scrolled
      held = marks[to];
      say(held);
    });
    canvas.addEventListener("focus", () => {
      if (canvas.matches(":focus-visible")) say(marks[place()] ?? { x: 0, y: 0, tells: () => how });
    });
    canvas.addEventListener("blur", () => { tip.hidden = true; redraw(); });
    return { redraw };
  };

  /* Axes with their names; returns how values become pixels. */
  const axes = (pen, wide, high, { x, y, xName, yName, xShow = view.show, yShow = view.show }) => {
    const [left, right, top, bottom] = [PAD.left, wide - PAD.right, PAD.top, high - PAD.bottom];
    const place = (value, [low, up], from, to) => from + ((Math.min(up, Math.max(low, value)) - low) / (up - low || 1)) * (to - from);
    const at = { x: (value) => place(value, x, left, right), y: (value) => place(value, y, bottom, top), left, right, top, bottom };
    pen.strokeStyle = colour("grid");
    pen.fillStyle = colour("soft");
    pen.lineWidth = 1;
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (const value of ticks(y[0], y[1], 7)) {
      pen.beginPath(); pen.moveTo(left, at.y(value)); pen.lineTo(right, at.y(value)); pen.stroke();
      pen.fillText(yShow(value), left - 7, at.y(value));
    }
    pen.textAlign = "center";
    pen.textBaseline = "top";
    for (const value of ticks(x[0], x[1], Math.max(2, Math.floor(wide / 110)))) pen.fillText(xShow(value), at.x(value), bottom + 5);
    pen.textAlign = "right";
    pen.fillText(xName, right, bottom + 19);
    if (yName) { pen.textAlign = "left"; pen.fillText(yName, left + 4, top - 8); }
    return at;
  };

  const line = (pen, points, { stroke, wide = 1, faint = 1, steps = false }) => {
    pen.strokeStyle = stroke;
    pen.lineWidth = wide;
    pen.globalAlpha = faint;
    pen.beginPath();
    points.forEach(([x, y], nth) => {
      if (nth && steps) pen.lineTo(x, points[nth - 1][1]);
      if (nth) pen.lineTo(x, y); else pen.moveTo(x, y);
    });
    pen.stroke();
    pen.globalAlpha = 1;
  };

  return { figure, axes, line, colour, reach, ticks, PAD };
})();
