import uPlot from 'uplot';
import { el, write } from './elements.js';

export type Series = { name: string; colour: string; text: (value: number) => string };

const SHOWN_SECONDS = 300;
/** The shortest time span of a chart, so that a new chart is more than a line at its right edge. */
const LEAST_SECONDS = 30;
const MAX_POINTS = 1_200;
const HEIGHT = 132;
const FONT = '11px system-ui, sans-serif';
const DARK = matchMedia('(prefers-color-scheme: dark)');

/** The values since the page was opened, so that charts continue when they are shown again. */
const seen = new Map<string, number[][]>();

/** A live chart of the last five minutes: one line for each series, and the newest values as text. */
export class Chart {
  readonly root: HTMLElement;
  readonly #data: number[][];
  readonly #values: HTMLElement[];
  /** Hidden from screen readers, because the newest values are in the text beside it. */
  readonly #stage = el('div', { class: 'stage', 'aria-hidden': 'true' });
  readonly #watch = new ResizeObserver(() => this.#fit());
  readonly #recolour = () => this.#draw();
  #plot: uPlot | null = null;

  /** @param key names the values that are kept for this chart */
  constructor(
    key: string,
    title: string,
    readonly series: readonly Series[],
  ) {
    this.#data = seen.get(key) ?? [[], ...series.map(() => [])];
    seen.set(key, this.#data);
    this.#values = series.map(() => el('b', {}, '–'));
    const legend = series.map(({ name, colour }, i) =>
      el('li', {}, el('i', { class: `dot ${colour}` }), ` ${name} `, this.#values[i] as HTMLElement),
    );
    this.root = el(
      'figure',
      { class: 'chart' },
      el('figcaption', {}, el('span', { class: 'name' }, title), el('ul', {}, ...legend)),
      this.#stage,
    );
    this.#watch.observe(this.#stage);
    DARK.addEventListener('change', this.#recolour);
  }

  add(atMs: number, values: readonly number[]): void {
    const at = atMs / 1000;
    const last = this.#data[0]?.at(-1) ?? 0;
    if (at <= last) return;
    for (const [i, value] of [at, ...values].entries()) {
      const points = this.#data[i];
      points?.push(value);
      if (points && points.length > MAX_POINTS) points.shift();
    }
    for (const [i, value] of values.entries()) {
      const { text } = this.series[i] as Series;
      write(this.#values[i] as HTMLElement, text(value));
    }
    this.#plot?.setData(this.#data as uPlot.AlignedData);
  }

  close(): void {
    this.#watch.disconnect();
    DARK.removeEventListener('change', this.#recolour);
    this.#plot?.destroy();
  }

  #fit(): void {
    const width = this.#stage.clientWidth;
    if (width === 0) return;
    if (this.#plot) this.#plot.setSize({ width, height: HEIGHT });
    else this.#draw();
  }

  #draw(): void {
    const width = this.#stage.clientWidth;
    if (width === 0) return;
    this.#plot?.destroy();
    const style = getComputedStyle(document.documentElement);
    const colour = (name: string) => style.getPropertyValue(`--${name}`).trim();
    const grid = { stroke: colour('hair'), width: 1 };
    const axis: uPlot.Axis = { stroke: colour('soft'), font: FONT, grid, ticks: { show: false } };
    this.#plot = new uPlot(
      {
        width,
        height: HEIGHT,
        legend: { show: false },
        cursor: { show: false },
        padding: [8, 28, 0, 0],
        scales: {
          x: { time: true, range: (_plot, min, max) => shownRange(min ?? 0, max ?? 0) },
          y: { range: (_plot, _min, max) => [0, Math.max(4, (max ?? 0) * 1.1)] },
        },
        axes: [
          { ...axis, size: 22, gap: 4, space: 90, values: (_plot, splits) => splits.map(clock) },
          { ...axis, size: 44, gap: 4, space: 30, values: (_plot, splits) => splits.map(short) },
        ],
        series: [
          {},
          ...(this.series.map(({ colour: name }) => ({
            stroke: colour(name),
            fill: this.series.length === 1 ? `${colour(name)}22` : undefined,
            width: 2,
            points: { show: false },
          })) as uPlot.Series[]),
        ],
      },
      this.#data as uPlot.AlignedData,
      this.#stage,
    );
  }
}

const clock = (at: number): string =>
  new Date(at * 1000).toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });

function shownRange(first: number, last: number): [number, number] {
  return [last - Math.min(SHOWN_SECONDS, Math.max(LEAST_SECONDS, last - first)), last];
}

function short(value: number): string {
  if (value >= 1_000_000) return `${value / 1_000_000}M`;
  if (value >= 1_000) return `${value / 1_000}k`;
  return Number.isInteger(value) ? String(value) : '';
}
