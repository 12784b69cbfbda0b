import uPlot from 'uplot';
import { call, Refused } from './calls.js';
import { button, card, el } from './elements.js';
import { actionText, linesOf, reportOf, type SaleHistory, type SaleReport } from './history-words.js';
import { time } from './words.js';

const HEIGHT = 180;
/** The numbers of the sale above it are read each second, so it must not stay what it was when the page opened. */
const READ_EVERY_MS = 30_000;
const SERIES = [
  ['Got a unit', 'free'],
  ['Paid', 'redeemed'],
  ['Joined the line', 'waiting'],
  ['Time ran out', 'held'],
] as const;

/** The sale so far, minute by minute, with what operators did. It is read from the service, so a reload keeps it. */
export function historyCard(path: string): { root: HTMLElement; close(): void } {
  const stage = el('div', { class: 'history', 'aria-hidden': 'true' });
  const report = el('dl', { class: 'facts' });
  const marks = el('ol', { class: 'timeline' });
  const note = el('p', { class: 'hint', role: 'status' }, 'Reading…');
  const legend = el(
    'ul',
    { class: 'legend' },
    ...SERIES.map(([name, colour]) => el('li', {}, el('i', { class: `dot ${colour}` }), ` ${name}`)),
  );
  let plot: uPlot | null = null;

  async function read(): Promise<void> {
    try {
      const [history, sums] = await Promise.all([
        call<SaleHistory>('GET', `${path}/history`),
        call<SaleReport>('GET', `${path}/report`),
      ]);
      show(history, sums);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      note.textContent = error.message;
    }
  }
  function show(found: SaleHistory, sums: SaleReport): void {
    const isEmpty = found.minutes.length === 0;
    note.textContent = isEmpty ? 'Nothing was sold yet.' : `Minutes from ${time(found.from)}.`;
    stage.hidden = legend.hidden = isEmpty;
    report.replaceChildren(...reportOf(sums).flatMap(([name, value]) => [el('dt', {}, name), el('dd', {}, value)]));
    marks.replaceChildren(
      ...found.actions.map(({ at, by, action }) =>
        el(
          'li',
          {},
          el('time', { datetime: at }, time(at)),
          el('strong', {}, actionText(action)),
          el('span', { class: 'hint' }, `by ${by}`),
        ),
      ),
    );
    plot?.destroy();
    plot = isEmpty || stage.clientWidth === 0 ? null : chartOf(stage, found);
  }
  read();
  const timer = setInterval(() => document.visibilityState === 'visible' && read(), READ_EVERY_MS);
  return {
    root: card(
      'History',
      { class: 'sale-history' },
      note,
      legend,
      stage,
      el(
        'div',
        { class: 'columns' },
        el('div', {}, el('h3', {}, 'Report'), report),
        el('div', {}, el('h3', {}, 'What was done'), marks),
      ),
      el(
        'p',
        { class: 'buttons' },
        button('Refresh', read),
        el('a', { class: 'button', href: `${path}/report?format=csv`, download: true }, 'Report as CSV'),
        el('a', { class: 'button', href: `${path}/history?format=csv`, download: true }, 'Minutes as CSV'),
      ),
    ),
    close: () => {
      clearInterval(timer);
      plot?.destroy();
    },
  };
}

/** Distances of the labels: the values are those of whole minutes. */
const STEPS_S = [60, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 21_600, 43_200, 86_400];

function chartOf(stage: HTMLElement, found: SaleHistory): uPlot {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => style.getPropertyValue(`--${name}`).trim();
  const axis: uPlot.Axis = {
    stroke: colour('soft'),
    font: '11px system-ui, sans-serif',
    grid: { stroke: colour('hair'), width: 1 },
    ticks: { show: false },
  };
  return new uPlot(
    {
      width: stage.clientWidth,
      height: HEIGHT,
      legend: { show: false },
      cursor: { show: false },
      padding: [8, 28, 0, 0],
      scales: { x: { time: true }, y: { range: (_plot, _min, max) => [0, Math.max(4, (max ?? 0) * 1.1)] } },
      axes: [
        { ...axis, size: 22, gap: 4, space: 90, incrs: STEPS_S, values: (_plot, splits) => splits.map(clock) },
        { ...axis, size: 44, gap: 4, space: 30 },
      ],
      series: [{}, ...SERIES.map(([, name]) => ({ stroke: colour(name), width: 2, points: { show: false } }))],
      hooks: { draw: [(plot) => drawMarks(plot, found, colour('soft'))] },
    },
    linesOf(found) as uPlot.AlignedData,
    stage,
  );
}

/** The day at midnight, else the time. */
function clock(at: number): string {
  const time = new Date(at * 1000);
  const isMidnight = time.getHours() === 0 && time.getMinutes() === 0;
  return time.toLocaleString(
    'en-GB',
    isMidnight ? { day: 'numeric', month: 'short' } : { hour: '2-digit', minute: '2-digit' },
  );
}

/** A vertical line where an operator did something. The list beside the chart has the words. */
function drawMarks(plot: uPlot, { actions }: SaleHistory, colour: string): void {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.strokeStyle = colour;
  ctx.setLineDash([4, 4]);
  for (const { at } of actions) {
    const x = plot.valToPos(Date.parse(at) / 1000, 'x', true);
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}
