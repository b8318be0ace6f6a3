/* SPDX-License-Identifier: Apache-2.0 */
/* Draws the plots and timelines of a page from its data, and sorts its tables. The element "drawn" tells the result:
   "ok", for each plot the number of points of its series, and for each timeline the numbers of its rows and bars; "failed"
   and the reason; or "none", and timelines, where plots lack Chart.js. */
(function () {
  'use strict';
  /* Colors that color-blind readers can tell apart (Okabe and Ito). */
  const colors = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9', '#5a6675', '#1c2430'];
  const marks = ['circle', 'rectRot', 'triangle', 'rect', 'star', 'crossRot', 'cross', 'rectRounded'];
  const dashes = [[], [7, 3], [2, 3], [8, 3, 2, 3], [12, 4], [1, 2], [5, 5], [3, 1]];
  const ink = '#1c2430', soft = '#5a6675', line = '#e3e8ee';

  function short(v) {
    if (v === 0) return '0';
    const size = Math.abs(v);
    if (size >= 1e6 || size < 1e-3) return v.toExponential(1).replace('.0', '').replace('+', '');
    return String(Number(v.toPrecision(4)));
  }

  function axis(title, log, zero) {
    const a = {
      type: log ? 'logarithmic' : 'linear',
      title: { display: true, text: title, color: ink, font: { size: 13 } },
      grid: { color: line, borderColor: soft },
      ticks: { color: soft, maxRotation: 0, autoSkipPadding: 12, callback: short }
    };
    if (log) {
      /* Labels at 1, 2 and 5 of each power of ten. */
      a.bounds = 'data';
      a.afterBuildTicks = function (scale) {
        scale.ticks = scale.ticks.filter(function (t) { return t.value >= scale.min && t.value <= scale.max; });
      };
      a.ticks.callback = function (v) {
        const lead = v / Math.pow(10, Math.floor(Math.log10(v) + 1e-9));
        return [1, 2, 5].some(function (n) { return Math.abs(lead - n) < 1e-6; }) ? short(v) : '';
      };
    } else if (zero) {
      a.beginAtZero = true;
    }
    return a;
  }

  function shows(plot, point) {
    return !(plot.log_x && !(point.x > 0)) && !(plot.log_y && !(point.y > 0));
  }

  function is_line(series) {
    return series.kind === 'line' || series.kind === 'steps';
  }

  /* Returns the number of a series' color. A line after points belongs to them and has their color. */
  function color_of(plot, i) {
    let n = 0;
    for (let k = 1; k <= i; k++) if (!(is_line(plot.series[k]) && !is_line(plot.series[k - 1]))) n++;
    return n % colors.length;
  }

  function dataset(plot, series, i) {
    const at = color_of(plot, i), color = colors[at], lines = is_line(series);
    return {
      label: series.name,
      data: series.points.filter(function (p) { return shows(plot, p); }),
      showLine: lines,
      stepped: series.kind === 'steps' ? 'before' : false,
      borderColor: color,
      backgroundColor: lines ? color : color + 'b0',
      borderDash: lines ? dashes[at] : [],
      borderWidth: lines ? 2 : 1,
      pointStyle: lines ? 'line' : marks[at],
      pointRadius: lines ? 0 : 4,
      pointHitRadius: 6,
      pointHoverRadius: 6
    };
  }

  function bars(plot) {
    return plot.series.map(function (series, i) {
      const many = plot.series.length > 1;
      return {
        label: series.name,
        data: series.points.map(function (p) { return p.y; }),
        backgroundColor: many ? colors[i % colors.length]
          : series.points.map(function (p, k) { return colors[k % colors.length]; }),
        maxBarThickness: 64
      };
    });
  }

  function configuration(plot) {
    const is_bars = plot.series.some(function (s) { return s.kind === 'bars'; });
    const x = axis(plot.x, plot.log_x, false);
    if (is_bars) {
      x.type = 'category';
      x.ticks.autoSkip = false;
      x.ticks.maxRotation = 45;
      delete x.ticks.callback;
    }
    return {
      type: is_bars ? 'bar' : 'scatter',
      data: {
        labels: is_bars ? plot.series[0].points.map(function (p) { return p.label; }) : undefined,
        datasets: is_bars ? bars(plot) : plot.series.map(function (s, i) { return dataset(plot, s, i); })
      },
      options: {
        animation: false,
        responsive: true,
        maintainAspectRatio: false,
        scales: { x: x, y: axis(plot.y, plot.log_y, plot.zero_y || is_bars) },
        plugins: {
          legend: {
            display: !is_bars || plot.series.length > 1,
            position: 'bottom',
            labels: { usePointStyle: true, color: ink, boxHeight: 7, boxWidth: 24 }
          },
          tooltip: {
            callbacks: {
              label: function (item) {
                if (is_bars) return item.dataset.label + ': ' + short(item.raw);
                const p = item.raw;
                return item.dataset.label + (p.label ? ', ' + p.label : '') + ': ' + short(p.x) + ', ' + short(p.y);
              }
            }
          }
        }
      }
    };
  }

  /* Tells whether a canvas has a pixel that is not transparent. */
  function is_inked(canvas) {
    const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    for (let i = 3; i < pixels.length; i += 4) if (pixels[i]) return true;
    return false;
  }

  function draw(plot, i) {
    const canvas = document.getElementById('plot' + i), chart = new Chart(canvas, configuration(plot));
    if (!is_inked(canvas)) throw new Error('plot ' + i + ' is empty');
    return plot.series.map(function (s, k) { return chart.getDatasetMeta(k).data.length; }).join('+');
  }

  function value(row, column) {
    const text = row.cells[column].textContent, number = parseFloat(text);
    return row.cells[column].className === 'number' ? number : text;
  }

  /* Sorts the rows of a table by a column, at each call in the other order. The first call sorts upwards. */
  function sort(head) {
    const body = head.closest('table').tBodies[0], up = head.dataset.up !== 'yes', column = head.cellIndex;
    const rows = Array.from(body.rows);
    rows.sort(function (a, b) {
      const x = value(a, column), y = value(b, column);
      return (x < y ? -1 : x > y ? 1 : 0) * (up ? 1 : -1);
    });
    rows.forEach(function (row) { body.appendChild(row); });
    head.dataset.up = up ? 'yes' : 'no';
  }

  document.querySelectorAll('th').forEach(function (head) {
    const rows = head.closest('table').tBodies[0].rows;
    if (rows.length && rows[0].cells[head.cellIndex].className === 'number') head.classList.add('number');
    head.classList.add('sorts');
    head.title = 'sort';
    head.addEventListener('click', function () { sort(head); });
  });
  const drawn = document.getElementById('drawn');
  try {
    const data = JSON.parse(document.getElementById('data').textContent), lacks = typeof Chart === 'undefined';
    const lines = data.timelines.map(function (t, i) { return draw_timeline(document.getElementById('timeline' + i), t); });
    const plots = lacks ? [] : data.plots.map(draw);
    drawn.textContent = [lacks && data.plots.length ? 'none' : 'ok'].concat(plots, lines).join(' ');
  } catch (e) {
    drawn.textContent = 'failed: ' + e.message;
    drawn.hidden = false;
  }
})();
