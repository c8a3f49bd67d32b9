/* Draws interactive charts from the data in the figures, with values at the pointer, legends that hide schemes, and zoom. Sorts
   and filters the table of flows. Without this script, the page shows static charts and the first flows. */
(() => {
  "use strict";
  const plots = [];
  const hidden = new Set();
  const colour = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  const parse = element => JSON.parse(element.textContent);
  const make = (tag, name, text) => {
    const element = document.createElement(tag);
    if (name) element.className = name;
    if (text !== undefined) element.textContent = text;
    return element;
  };

  const BYTES = [["GB", 1e9], ["MB", 1e6], ["KB", 1e3], ["B", 1]];
  const digits = value => value === 0 ? "0" : Math.abs(value) >= 1e5 ? Math.round(value).toLocaleString("en")
    : String(Number(value.toPrecision(5)));
  const format = axis => value => {
    if (value === null || value === undefined) return "";
    if (!axis.bytes) return digits(value);
    const [unit, scale] = BYTES.find(([, scale]) => value >= scale) || BYTES[3];
    return digits(Number((value / scale).toPrecision(4))) + " " + unit;
  };

  const expand = x => Array.isArray(x) ? Array.from({ length: x[2] }, (_, i) => x[0] + i * x[1]) : x.at;

  /* Returns one table for uPlot: x values, then for each line its values and the edges of its band. */
  const align = data => {
    const xs = data.xs.map(expand);
    const tables = data.lines.map(line => [xs[line.x], line.y, ...line.band]);
    return xs.length === 1 ? [xs[0], ...tables.flatMap(table => table.slice(1))] : uPlot.join(tables);
  };

  /* Returns the index of a line's value that is nearest to an index at which only other lines may have a point. */
  const nearest = (values, index, isStep) => {
    if (values[index] !== null && values[index] !== undefined) return index;
    let before = index, after = index;
    while (before >= 0 && (values[before] === null || values[before] === undefined)) before--;
    if (isStep && before >= 0) return before;
    while (after < values.length && (values[after] === null || values[after] === undefined)) after++;
    if (after >= values.length) return before >= 0 ? before : index;
    return before >= 0 && index - before <= after - index ? before : after;
  };

  /* Visible lines that overlap are drawn as alternating dashes, as in overlap.rs. */
  const DASH_LENGTH = 9;
  // Rows for the labels of marks.
  const MARK_ROWS = 3;
  const dashes = plot => {
    const ratio = devicePixelRatio;
    for (const line of plot.lines) {
      const sharing = plot.lines.filter(other =>
        other.group !== null && other.group === line.group && plot.u.series[other.at].show);
      const series = plot.u.series[line.at];
      const place = sharing.indexOf(line);
      series.offset = 0;
      if (place >= 0 && sharing.length > 1) {
        series.dash = [DASH_LENGTH * ratio, DASH_LENGTH * (sharing.length - 1) * ratio];
        series.offset = -DASH_LENGTH * place * ratio;
      } else {
        series.dash = line.dash === "none" ? [] : line.dash.split(" ").map(length => length * ratio);
      }
    }
  };
  const offset = (u, from) => {
    const next = u.series.findIndex((series, i) => i >= from && series.show);
    u.ctx.lineDashOffset = next > 0 ? u.series[next].offset || 0 : 0;
  };

  const tip = (plot, u) => {
    const { idx, left, top, event } = u.cursor;
    const shown = event && idx !== null && idx !== undefined && left >= 0;
    plot.tip.hidden = !shown;
    if (!shown) return;
    plot.tip.replaceChildren(make("div", "at", `${plot.x(u.data[0][idx])} · ${plot.data.x.title}`));
    for (const line of plot.lines) {
      const series = u.series[line.at];
      if (!series.show) continue;
      const row = make("div");
      const swatch = make("span", "ink");
      swatch.style.background = colour(line.colour);
      const value = u.data[line.at][nearest(u.data[line.at], idx, line.step)];
      row.append(swatch, make("span", "", line.name), make("b", "", plot.y(value)));
      plot.tip.append(row);
    }
    const aside = left > u.over.clientWidth / 2;
    plot.tip.style.left = aside ? "" : left + 14 + "px";
    plot.tip.style.right = aside ? u.over.clientWidth - left + 14 + "px" : "";
    plot.tip.style.top = Math.max(0, Math.min(top - 10, u.over.clientHeight - plot.tip.offsetHeight)) + "px";
  };

  const marks = (plot, u) => {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.strokeStyle = colour("mark");
    ctx.fillStyle = colour("faint");
    ctx.font = `${12 * devicePixelRatio}px system-ui, sans-serif`;
    ctx.setLineDash([2 * devicePixelRatio, 3 * devicePixelRatio]);
    ctx.lineDashOffset = 0;
    // Right end of the labels in each row; a label that would overlap another one goes to the next row.
    const ends = [];
    for (const mark of plot.data.marks) {
      const x = u.valToPos(mark.x, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      const gap = 6 * devicePixelRatio, width = ctx.measureText(mark.label).width;
      const room = bbox.left + bbox.width - x > width + gap;
      const from = room ? x + gap : x - gap - width;
      let row = 0;
      while (ends[row] > from) row++;
      if (row >= MARK_ROWS) continue;
      ends[row] = from + width + gap;
      ctx.textAlign = "left";
      ctx.textBaseline = "top";
      ctx.fillText(mark.label, from, bbox.top + 2 + row * 14 * devicePixelRatio);
    }
    ctx.restore();
  };

  /* All charts with a time axis are zoomed together. */
  let linking = false;
  const zoom = (plot, low, high) => {
    if (linking) return;
    linking = true;
    const linked = plots.filter(other => other === plot || plot.data.x.time && other.data.x.time);
    for (const other of linked) {
      const whole = low === null;
      other.zoomed = !whole;
      const ends = whole ? [other.data.x.low, other.data.x.high] : [low, high];
      other.u.setScale("x", { min: ends[0], max: ends[1] });
      other.back.hidden = whole;
    }
    linking = false;
  };

  /* Returns round values for ticks of a logarithmic axis, as many per power of ten as fit. */
  const decades = (u, axis, low, high) => {
    const digits = high / low > 300 ? [1] : high / low > 12 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 7];
    const splits = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) {
      for (const digit of digits) splits.push(Number((digit * 10 ** power).toPrecision(2)));
    }
    return splits.filter(value => value >= low && value <= high);
  };

  const axis = (data, size) => ({
    ...(data.log ? { splits: decades, filter: (u, splits) => splits } : {}),
    stroke: () => colour("faint"),
    grid: { show: size !== undefined, stroke: () => colour("grid"), width: 1 },
    ticks: { stroke: () => colour("axis"), width: 1, size: 4 },
    font: "12px system-ui, sans-serif",
    values: (u, splits) => splits.map(value => value === null ? "" : format(data)(value)),
    size,
  });

  const draw = figure => {
    const source = figure.querySelector(":scope > script");
    const data = parse(source);
    const alt = figure.querySelector("svg.chart").getAttribute("aria-label");
    const host = make("div", "plot");
    host.setAttribute("role", "img");
    host.setAttribute("aria-label", alt);
    const title = make("div", "axis-title", data.y.title);
    const back = make("button", "back", "show all");
    back.type = "button";
    back.hidden = true;
    host.append(title, back);
    source.before(host);
    figure.classList.add("live");
    const plot = { data, host, back, x: format(data.x), y: format(data.y), tip: make("div", "tip"), lines: [] };
    const series = [{}], bands = [];
    for (const line of data.lines) {
      const at = series.length;
      plot.lines.push(Object.assign(line, { at }));
      series.push({
        label: line.name, stroke: () => colour(line.colour), width: 1.75, spanGaps: true, points: { show: false },
        paths: line.step ? uPlot.paths.stepped({ align: 1 }) : undefined, show: !hidden.has(line.name),
      });
      if (line.band.length) {
        for (const edge of ["low", "high"]) series.push({ label: edge, stroke: "transparent", points: { show: false } });
        bands.push({ series: [at + 2, at + 1], fill: () => colour(line.colour) + "33" });
      }
    }
    const size = () => ({ width: host.clientWidth, height: figure.classList.contains("full") ? 290 : 250 });
    const high = (u, min, max) => data.y.log || !plot.zoomed || !(max > 0) ? [data.y.low, data.y.high] : [data.y.low, max * 1.06];
    const options = {
      ...size(), legend: { show: false }, series, bands, padding: [10, 16, 0, 0],
      scales: {
        x: { time: false, distr: data.x.log ? 3 : 1, min: data.x.low, max: data.x.high, auto: false, range: (u, min, max) => [min, max] },
        y: { distr: data.y.log ? 3 : 1, range: high },
      },
      axes: [{ ...axis(data.x), label: data.x.title, labelSize: 18, labelFont: "12px system-ui, sans-serif", size: 28 }, axis(data.y, 56)],
      cursor: {
        y: false, points: { size: 6 },
        drag: { x: true, y: false, setScale: false },
        sync: data.x.time ? { key: "time", scales: ["x", null], setSeries: false } : undefined,
        dataIdx: (u, at, index) => at === 0 || index === null ? index : nearest(u.data[at], index, (data.lines.find(line => line.at === at) || {}).step),
        bind: { dblclick: () => () => { zoom(plot, null, null); return null; } },
      },
      hooks: {
        setCursor: [u => tip(plot, u)],
        setSelect: [u => {
          const { left, width } = u.select;
          // zoom() updates the other charts. uPlot repeats the event on them, without a cursor event, which is ignored here.
          if (u.cursor.event && width > 2) zoom(plot, u.posToVal(left, "x"), u.posToVal(left + width, "x"));
          u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
        }],
        drawClear: [u => offset(u, 1)],
        drawSeries: [(u, i) => offset(u, i + 1)],
        draw: [u => marks(plot, u)],
      },
    };
    plot.u = new uPlot(options, align(data), host);
    plot.u.over.append(plot.tip);
    plot.tip.hidden = true;
    back.addEventListener("click", () => zoom(plot, null, null));
    dashes(plot);
    plots.push(plot);
    new ResizeObserver(() => { if (host.clientWidth > 0) plot.u.setSize(size()); }).observe(host);
  };

  /* A click on a name in a legend hides or shows the scheme in all charts. */
  const entries = [...document.querySelectorAll(".legend span")].filter(entry =>
    [...entry.closest("section").querySelectorAll("figure > script")].length);
  const toggle = name => {
    if (!hidden.delete(name)) hidden.add(name);
    for (const entry of entries) entry.setAttribute("aria-pressed", String(!hidden.has(entry.dataset.name)));
    for (const plot of plots.filter(plot => plot.data.legend)) {
      for (const line of plot.lines) {
        if (line.name === name) plot.u.setSeries(line.at, { show: !hidden.has(name) });
      }
      dashes(plot);
      plot.u.redraw(false);
    }
  };
  for (const entry of entries) {
    entry.setAttribute("role", "button");
    entry.setAttribute("aria-pressed", "true");
    entry.tabIndex = 0;
    entry.title = "Show or hide in all charts";
    entry.addEventListener("click", () => toggle(entry.dataset.name));
    entry.addEventListener("keydown", event => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); toggle(entry.dataset.name); }
    });
  }

  const flows = () => {
    const details = document.querySelector(".flows-section details");
    if (!details) return;
    const data = parse(details.querySelector("script"));
    const [table, body] = [details.querySelector("table"), details.querySelector("tbody")];
    const filter = make("input", "filter");
    filter.type = "search";
    filter.placeholder = "Filter: h3, fncc, slowdown>5, size<10000";
    filter.setAttribute("aria-label", "Filter flows");
    const count = make("p", "note more");
    const heads = [...table.querySelectorAll("th")];
    const names = heads.map(head => head.firstChild.textContent.trim());
    let order = null;
    const matches = row => filter.value.trim().toLowerCase().split(/\s+/).every(word => {
      const [, name, sign, bound] = word.match(/^(\w+)([<>=])([\d.e+]+)$/) || [];
      const column = names.indexOf(name);
      if (column < 0) return row.some((value, i) => !data.numbers[i] && String(value).toLowerCase().includes(word.replace("->", "→")));
      const value = row[column];
      return value !== null && (sign === "<" ? value < +bound : sign === ">" ? value > +bound : value === +bound);
    });
    const show = () => {
      let rows = data.rows.map((row, i) => [row, data.rates[i]]).filter(([row]) => matches(row));
      if (order) {
        const { column, up } = order;
        const last = up ? Infinity : -Infinity;
        const compare = data.numbers[column]
          ? (a, b) => (a[0][column] ?? last) - (b[0][column] ?? last)
          : (a, b) => String(a[0][column]).localeCompare(b[0][column], "en", { numeric: true });
        rows = rows.sort((a, b) => (up ? 1 : -1) * compare(a, b) || 0);
      }
      count.textContent = `${rows.length.toLocaleString("en")} flows` + (rows.length > data.shown ? `, the first ${data.shown} are listed` : "");
      body.replaceChildren(...rows.slice(0, data.shown).map(([row, rated]) => {
        const line = make("tr");
        row.forEach((value, i) => {
          const cell = make("td");
          const text = value === null ? "-" : String(value);
          const chart = rated && i === 0 ? data.charts[row[1]] : undefined;
          if (chart && document.getElementById(chart)) {
            const link = make("a", "", text);
            link.href = "#" + chart;
            cell.append(link);
          } else {
            cell.textContent = text;
          }
          line.append(cell);
        });
        return line;
      }));
    };
    heads.forEach((head, column) => {
      head.tabIndex = 0;
      head.title = "Sort";
      const sort = () => {
        order = { column, up: order && order.column === column ? !order.up : !data.numbers[column] };
        heads.forEach(other => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", order.up ? "ascending" : "descending");
        show();
      };
      head.addEventListener("click", sort);
      head.addEventListener("keydown", event => { if (event.key === "Enter") sort(); });
    });
    filter.addEventListener("input", show);
    details.querySelectorAll(".more").forEach(note => note.remove());
    table.parentElement.before(filter);
    table.parentElement.after(count);
    show();
  };

  document.querySelectorAll("figure").forEach(figure => { if (figure.querySelector(":scope > script")) draw(figure); });
  flows();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => plots.forEach(plot => plot.u.redraw(false)));
  addEventListener("dppxchange", () => plots.forEach(dashes));
})();
