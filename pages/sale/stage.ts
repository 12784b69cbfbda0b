import { countdownOf } from '../../client/countdown.js';
import { figuresOf, numberText, texts } from './page-data.js';
import type { View } from './view.js';

/** The elements of the page, and how a view is written into them. An element changes only if its text does. */

export const element = (id: string) => document.getElementById(id) as HTMLElement;

export function write(id: string, text: string): void {
  writeInto(element(id), text);
}

function writeInto(target: Element, text: string): void {
  if (target.textContent !== text) target.textContent = text;
}

/** @param saleId shown until there is an order @param nowMs by the server's clock */
export function showView(view: View, saleId: string, nowMs: number): void {
  const lines = ['status', 'headline', 'caption', 'detail', 'updated', 'trouble', 'connection', 'hint'] as const;
  for (const id of lines) write(id, view[id]);
  // These share the line of the detail.
  element('detail').hidden = Boolean(view.trouble || view.connection);
  element('connection').classList.toggle('unseen', Boolean(view.trouble));
  element('stage').dataset.mood = view.mood;
  element('stock').hidden = !view.noneFree;
  showFigure(view, nowMs);
  write('reference-label', view.order ? texts.order : texts.sale);
  write('reference-id', view.order ?? saleId);
  showButtons(view, nowMs);
  const door = document.querySelector<HTMLElement>('.door');
  if (door) door.dataset.door = view.door;
  showSteps(view);
  const calendar = document.getElementById('calendar');
  if (calendar) calendar.hidden = !view.startsLater;
  element('hint').hidden = element('others').querySelector(':not([hidden], #hint)') !== null;
}

/** Marks the step of the shopper, and those before it as done. */
function showSteps({ step, isOver }: View): void {
  const title = document.getElementById('steps-title');
  if (title) writeInto(title, isOver ? texts.pastSteps : texts.nextSteps);
  const steps = [...document.querySelectorAll<HTMLElement>('#steps li')];
  const now = steps.findIndex(({ dataset }) => dataset.step === step);
  for (const [i, one] of steps.entries()) {
    one.classList.toggle('done', now === -1 ? step === null : i < now);
    if (i === now) one.setAttribute('aria-current', 'step');
    else one.removeAttribute('aria-current');
  }
}

/** Shows a place, what is reserved, a countdown, or facts. */
function showFigure({ place, reserved, clock, rows, bar }: View, nowMs: number): void {
  const number = place ? { text: numberText(place.position), note: place.note } : reserved;
  element('place').hidden = number === null;
  if (number) {
    write('position', number.text);
    element('position').classList.toggle('long', number.text.length > 6);
    write('queue-size', number.note);
  }
  element('clock').hidden = clock === null || number !== null;
  if (clock) {
    element('clock').setAttribute('aria-label', clock.label);
    const figures = figuresOf(clock.untilMs - nowMs);
    for (const [i, part] of [...element('clock').children].entries()) {
      const [value, unit] = figures[i] as [string, string];
      writeInto(part.children[0] as Element, value);
      writeInto(part.children[1] as Element, unit);
    }
  }
  showRows(number || clock ? [] : rows);
  const way = element('way') as HTMLProgressElement;
  way.value = bar?.percent ?? 0;
  // Without a value it is a rule between the figure and the words.
  if (bar) way.setAttribute('aria-label', bar.label);
  way.setAttribute('aria-hidden', String(bar === null));
}

function showRows(rows: View['rows']): void {
  const list = element('rows');
  list.hidden = rows.length === 0;
  const parts = [...list.children];
  for (const [i, part] of parts.entries()) {
    const row = rows[i];
    (part as HTMLElement).hidden = !row;
    writeInto(part.children[0] as Element, row?.[0] ?? '');
    writeInto(part.children[1] as Element, row?.[1] ?? '');
  }
}

function showButtons({ button, other, second, pay }: View, nowMs: number): void {
  const [act, more, quiet, link] = [
    ...['act', 'other', 'second'].map(element),
    element('pay') as HTMLAnchorElement,
  ] as [HTMLElement, HTMLElement, HTMLElement, HTMLAnchorElement];
  write('act', button?.label ?? '');
  // Not `disabled`, because that would lose the focus at the moment of the press.
  act.setAttribute('aria-disabled', String(!button?.enabled));
  act.hidden = button === null;
  write('other', other?.label ?? '');
  more.hidden = other === null;
  if (other && other.pressed !== null) more.setAttribute('aria-pressed', String(other.pressed));
  else more.removeAttribute('aria-pressed');
  write('second', second?.label ?? '');
  quiet.hidden = second === null;
  link.hidden = pay === null;
  if (pay) {
    if (link.href !== pay.href) link.href = pay.href;
    write('pay-label', pay.label);
    element('pay-left').hidden = pay.untilMs === null;
    if (pay.untilMs !== null) write('pay-left', countdownOf(pay.untilMs - nowMs).clock);
  }
}
