/* SPDX-License-Identifier: Apache-2.0 */
/* Draws a timeline of a page from its data: rows of bars in groups, as SVG. The wheel and + and - zoom, dragging and arrow
   keys move, a double click and 0 show everything. Whatever is visible has a label for those who cannot see it. Returns
   "rows:bars", as far as they are drawn. */
const draw_timeline = (function () {
  'use strict';
  /* The name space of SVG, from the browser: no address stands in a page. */
  const sample = document.createElement('div');
  sample.innerHTML = '<svg></svg>';
  const ns = sample.firstChild.namespaceURI;
  /* Light ones, on which ink can be read, and which color-blind readers can tell apart. Waits are hatched with them. */
  const colors = ['#b6c0ca', '#8ccbee', '#55c79f', '#f0b429', '#dfa3c6', '#f08c5a', '#cfc06a', '#9fa8da'];
  const LEVEL = 16, LANE = 13, GAP = 5, HEAD = 24, AXIS = 22, LETTER = 5.9, FEWEST = 6 /* Letters of a name that is cut. */;
  const WORK = 0, WAIT = 1, FRAME = 2, MOMENT = 3;

  function element(parent, name, attributes, text) {
    const e = document.createElementNS(ns, name);
    for (const key in attributes) e.setAttribute(key, attributes[key]);
    if (text !== undefined) e.textContent = text;
    return parent.appendChild(e);
  }

  function html(parent, name, kind, text) {
    const e = document.createElement(name);
    if (kind) e.className = kind;
    if (text !== undefined) e.textContent = text;
    return parent.appendChild(e);
  }

  /* A time with its unit. Nanoseconds become larger units; what else there is has thousands apart. */
  function spell(time, unit, step) {
    const size = Math.max(Math.abs(time), step || 0);
    const as = unit !== 'ns' ? [1, unit] : size < 1000 ? [1, 'ns'] : size < 1e6 ? [1e3, 'µs'] : [1e6, 'ms'];
    const fine = (step || size / 1000) / as[0];
    const digits = Math.min(3, Math.max(0, Math.ceil(-Math.log10(fine) - 1e-9)));
    return (time / as[0]).toLocaleString('en', { maximumFractionDigits: digits }) + ' ' + as[1];
  }

  /* Bars as objects with their places: the row's, and one in it. */
  function unpack(data) {
    const bars = [], groups = [];
    let y = 0;
    data.groups.forEach(function (group) {
      const made = { name: group.name, y: y, rows: [] };
      y += HEAD;
      group.rows.forEach(function (row) {
        const high = row.lane ? LANE : LEVEL, levels = row.bars.reduce(function (n, b) { return Math.max(n, b[4] + 1); }, 1);
        const now = { name: row.name, lane: row.lane, y: y, height: high * levels, bars: [] };
        row.bars.forEach(function (b) {
          const bar = {
            begin: b[0], end: b[1], kind: b[2], name: data.texts[b[3]], style: b[5], iteration: b[6],
            detail: b[7] === undefined ? '' : data.texts[b[7]], row: now, y: y + b[4] * high, height: high - 2,
            number: bars.length, arrows: []
          };
          bars.push(bar);
          now.bars.push(bar);
        });
        y += now.height + GAP;
        made.rows.push(now);
      });
      made.height = y - made.y;
      groups.push(made);
    });
    data.arrows.forEach(function (a) {
      bars[a[0]].arrows.push(a);
      bars[a[1]].arrows.push(a);
    });
    return { bars: bars, groups: groups, height: y };
  }

  function is_moment(bar) {
    return bar.style === MOMENT;
  }

  function tell(bar, data) {
    const parts = [bar.name];
    if (!is_moment(bar)) parts.push(spell(bar.end - bar.begin, data.unit));
    if (bar.style === WAIT) parts.push('a wait');
    if (bar.iteration >= 0) parts.push('iteration ' + bar.iteration);
    if (bar.detail) parts.push(bar.detail);
    parts.push(is_moment(bar) ? 'at ' + spell(bar.begin, data.unit)
      : 'from ' + spell(bar.begin, data.unit) + ' to ' + spell(bar.end, data.unit));
    return parts;
  }

  /* The largest of 1, 2 and 5 times a power of ten that leaves at least `room` pixels between ticks. */
  function step_of(span, width, room) {
    const least = span * room / width, power = Math.pow(10, Math.floor(Math.log10(least)));
    return [1, 2, 5, 10].map(function (n) { return n * power; }).find(function (s) { return s >= least; });
  }

  return function (figure, data) {
    const model = unpack(data), whole = [data.begin, Math.max(data.end, data.begin + 1)];
    let from = whole[0], to = whole[1], shown = { rows: 0, bars: 0 }, waiting = false, width = 0, gutter = 0;
    const bar_box = html(figure, 'div', 'tools'), legend = html(bar_box, 'ul', 'legend');
    data.kinds.forEach(function (kind, i) {
      if (!model.bars.some(function (b) { return b.kind === i && b.style !== FRAME; })) return;
      const item = html(legend, 'li');
      html(item, 'span', 'swatch').style.background = colors[i % colors.length];
      item.appendChild(document.createTextNode(kind));
    });
    if (model.bars.some(function (b) { return b.style === WAIT; })) {
      const item = html(legend, 'li');
      html(item, 'span', 'swatch hatched');
      item.appendChild(document.createTextNode('hatched: waiting for it'));
    }
    const buttons = html(bar_box, 'span', 'buttons');
    const view = html(figure, 'div', 'view'), tip = html(figure, 'div', 'tip');
    const axis = element(view, 'svg', { class: 'axis', height: AXIS, 'aria-hidden': 'true' });
    const svg = element(view, 'svg', { role: 'group', 'aria-label': data.title, height: model.height });
    view.tabIndex = 0;
    tip.hidden = true;

    const defs = element(svg, 'defs');
    colors.forEach(function (color, i) {
      const p = element(defs, 'pattern', {
        id: figure.id + 'wait' + i, width: 6, height: 6, patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(45)'
      });
      element(p, 'rect', { width: 6, height: 6, fill: '#fff' });
      element(p, 'rect', { width: 2.6, height: 6, fill: color });
    });
    const head = element(defs, 'marker', {
      id: figure.id + 'head', viewBox: '0 0 8 8', refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: 'auto'
    });
    element(head, 'path', { d: 'M0 0 8 4 0 8z', class: 'arrowhead' });
    const names = element(svg, 'g', { class: 'names' });
    const plot = element(svg, 'svg', { height: model.height }), back = element(plot, 'g'), front = element(plot, 'g');
    const over = element(plot, 'g', { class: 'arrows', 'pointer-events': 'none' });

    function x_of(time) {
      return (time - from) / (to - from) * (width - gutter);
    }

    function time_at(x) {
      return from + (x - gutter) / (width - gutter) * (to - from);
    }

    function draw_names() {
      names.textContent = '';
      const most = Math.floor((gutter - 14) / LETTER);
      model.groups.forEach(function (g) {
        element(names, 'text', { x: 0, y: g.y + 16, class: 'group' }, g.name);
        g.rows.forEach(function (r) {
          const cut = r.name.length > most ? r.name.slice(0, most - 1) + '…' : r.name;
          const t = element(names, 'text', { x: 8, y: r.y + 11, class: r.lane ? 'lane' : 'row' }, cut);
          element(t, 'title', {}, r.name);
        });
      });
    }

    function draw_axis() {
      const step = step_of(to - from, width - gutter, 90);
      axis.textContent = '';
      back.textContent = '';
      for (let time = Math.ceil(from / step) * step; time <= to; time += step) {
        const x = x_of(time);
        /* A label at the right edge ends there. */
        const near = width - gutter - x < 30;
        element(axis, 'text', { x: near ? width : gutter + x, y: 15, 'text-anchor': near ? 'end' : 'middle' },
          spell(time, data.unit, step));
        element(back, 'line', { x1: x, x2: x, y1: 0, y2: model.height, class: 'tick' });
      }
      model.groups.forEach(function (g) {
        element(back, 'line', { x1: 0, x2: width, y1: g.y + 0.5, y2: g.y + 0.5, class: 'between' });
        g.rows.forEach(function (r) {
          element(back, 'rect', { x: 0, y: r.y - 1, width: width - gutter, height: r.height, class: 'bed' });
        });
      });
    }

    function draw_bar(bar) {
      const x = x_of(bar.begin), wide = Math.max(x_of(bar.end) - x, 1), color = colors[bar.kind % colors.length];
      const label = tell(bar, data).join(', ');
      const common = { 'data-bar': bar.number, role: 'img', 'aria-label': label };
      if (is_moment(bar)) {
        /* A diamond where there is room, and otherwise a short line. */
        const dense = bar.row.is_dense;
        common.d = dense ? 'M' + (x - 0.5) + ' ' + (bar.y + bar.height * 0.6) + 'h1v' + bar.height * 0.4 + 'h-1z'
          : 'M' + (x - 4) + ' ' + (bar.y + bar.height / 2) + 'l4 -4.5 4 4.5 -4 4.5z';
        common.fill = color;
        common.class = dense ? 'dense' : 'moment';
        element(front, 'path', common);
        return;
      }
      common.x = x;
      common.y = bar.y;
      common.width = wide;
      common.height = bar.height;
      common.fill = bar.style === WAIT ? 'url(#' + figure.id + 'wait' + bar.kind % colors.length + ')' : color;
      common.class = bar.style === FRAME ? 'frame' : bar.style === WAIT ? 'wait' : 'work';
      if (bar.style === WAIT) common.stroke = color;
      if (wide > 3 && bar.style === WORK) common.rx = 2;
      element(front, 'rect', common);
      /* The name stands in the part that is visible. */
      const left = Math.max(x, 0), letters = Math.floor((Math.min(x + wide, width - gutter) - left - 6) / LETTER);
      if (letters < Math.min(bar.name.length, FEWEST)) return;
      const cut = bar.name.length > letters ? bar.name.slice(0, letters - 1) + '…' : bar.name;
      element(front, 'text', { x: left + 4, y: bar.y + bar.height - 3.5, class: bar.style === FRAME ? 'soft' : bar.style === WAIT ? 'halo' : '' }, cut);
    }

    function draw() {
      waiting = false;
      width = view.clientWidth;
      gutter = Math.round(Math.min(210, width * 0.3));
      [axis, svg].forEach(function (s) { s.setAttribute('width', width); });
      plot.setAttribute('x', gutter);
      plot.setAttribute('width', width - gutter);
      draw_names();
      draw_axis();
      front.textContent = '';
      over.textContent = '';
      shown = { rows: 0, bars: 0 };
      model.groups.forEach(function (g) {
        g.rows.forEach(function (r) {
          const seen = r.bars.filter(function (b) { return b.end >= from && b.begin <= to; });
          /* Moments are on top of what they are in. */
          seen.filter(function (b) { return !is_moment(b); }).forEach(draw_bar);
          const moments = seen.filter(is_moment);
          r.is_dense = moments.length * 18 > width - gutter;
          moments.forEach(draw_bar);
          shown.rows++;
          shown.bars += seen.length;
        });
      });
    }

    function later() {
      if (!waiting) requestAnimationFrame(draw);
      waiting = true;
    }

    /* Shows a part of the whole, at least a few units of it. */
    function show(a, b) {
      const span = Math.min(Math.max(b - a, 2), whole[1] - whole[0]);
      from = Math.min(Math.max(a, whole[0]), whole[1] - span);
      to = from + span;
      later();
    }

    function zoom(factor, at) {
      show(at - (at - from) * factor, at + (to - at) * factor);
    }

    function move(part) {
      const by = (to - from) * part;
      show(from + by, to + by);
    }

    /* Arrows to and from a bar: each leads from the end of what was waited for to the end of the wait. */
    function draw_arrows(bar) {
      over.textContent = '';
      bar.arrows.forEach(function (a) {
        const b = model.bars[a[0]], e = model.bars[a[1]], x1 = x_of(b.end), x2 = x_of(e.end);
        const y1 = b.y + b.height / 2, y2 = e.y + e.height / 2, bend = Math.max(20, Math.abs(x2 - x1) / 2);
        element(over, 'path', {
          d: 'M' + x1 + ' ' + y1 + 'C' + (x1 + bend) + ' ' + y1 + ' ' + (x2 - bend) + ' ' + y2 + ' ' + x2 + ' ' + y2,
          'marker-end': 'url(#' + figure.id + 'head)'
        });
      });
    }

    function hover(event) {
      const target = event.target.closest && event.target.closest('[data-bar]');
      tip.hidden = !target;
      if (!target) {
        over.textContent = '';
        return;
      }
      const bar = model.bars[target.getAttribute('data-bar')], box = figure.getBoundingClientRect();
      tip.textContent = '';
      tell(bar, data).concat([data.kinds[bar.kind] + ', ' + bar.row.name]).forEach(function (line, i) {
        html(tip, 'div', i ? '' : 'first', line);
      });
      const x = event.clientX - box.left, y = event.clientY - box.top;
      tip.style.left = Math.max(0, Math.min(x + 14, box.width - tip.offsetWidth - 4)) + 'px';
      tip.style.top = y + 16 + 'px';
      draw_arrows(bar);
    }

    let held = null;
    view.addEventListener('wheel', function (event) {
      const x = event.clientX - view.getBoundingClientRect().left;
      if (x < gutter) return;
      event.preventDefault();
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) move((event.deltaX || event.deltaY) / 600);
      else zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / 300))), time_at(x));
    }, { passive: false });
    svg.addEventListener('pointerdown', function (event) {
      held = { x: event.clientX, from: from, to: to };
    });
    window.addEventListener('pointermove', function (event) {
      if (!held || !event.buttons) return;
      const by = (held.x - event.clientX) / (width - gutter) * (held.to - held.from);
      if (Math.abs(held.x - event.clientX) > 2) view.classList.add('held');
      show(held.from + by, held.to + by);
    });
    window.addEventListener('pointerup', function () {
      held = null;
      view.classList.remove('held');
    });
    svg.addEventListener('pointermove', function (event) { if (!held) hover(event); });
    svg.addEventListener('pointerleave', function () {
      tip.hidden = true;
      over.textContent = '';
    });
    svg.addEventListener('dblclick', function () { show(whole[0], whole[1]); });
    view.addEventListener('keydown', function (event) {
      const middle = (from + to) / 2;
      const keys = {
        '+': function () { zoom(0.5, middle); }, '=': function () { zoom(0.5, middle); },
        '-': function () { zoom(2, middle); }, '0': function () { show(whole[0], whole[1]); },
        ArrowLeft: function () { move(-0.2); }, ArrowRight: function () { move(0.2); }
      };
      if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
      keys[event.key]();
      event.preventDefault();
    });
    [['−', 'zoom out', function () { zoom(2, (from + to) / 2); }], ['+', 'zoom in', function () { zoom(0.5, (from + to) / 2); }],
     ['all', 'show everything', function () { show(whole[0], whole[1]); }]].forEach(function (b) {
      const button = html(buttons, 'button', '', b[0]);
      button.type = 'button';
      button.title = b[1];
      button.setAttribute('aria-label', b[1]);
      button.addEventListener('click', b[2]);
    });
    window.addEventListener('resize', later);
    draw();
    const labelled = front.querySelectorAll('[aria-label]').length;
    if (labelled !== shown.bars) throw new Error(figure.id + ' has ' + labelled + ' of ' + shown.bars + ' bars');
    return shown.rows + ':' + shown.bars;
  };
})();
