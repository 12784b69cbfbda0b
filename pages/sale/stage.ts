import { countdownOf } from '../../client/countdown.js';
import { fill } from '../../shared/sale-page/texts.js';
import { daysText, numberText, texts } from './page-data.js';
import type { View } from './view.js';

/** The elements of the page, and how a view is written into them. An element changes only if its text does. */

export const element = (id: string) => document.getElementById(id) as HTMLElement;

export function write(id: string, text: string): void {
  const target = element(id);
  if (target.textContent !== text) target.textContent = text;
}

/** @param nowMs by the server's clock */
export function showView(view: View, nowMs: number): void {
  for (const id of ['status', 'headline', 'detail', 'updated', 'trouble', 'connection'] as const) write(id, view[id]);
  element('stage').dataset.mood = view.mood;
  showPlace(view);
  showClock(view, nowMs);
  showOrder(view);
  showButtons(view, nowMs);
  const door = document.querySelector<HTMLElement>('.door');
  if (door) door.dataset.door = view.door;
  showSteps(view);
  const calendar = document.getElementById('calendar');
  if (calendar) calendar.hidden = !view.startsLater;
}

/** Marks the step of the shopper, and those before it as done. */
function showSteps({ step }: View): void {
  const steps = [...document.querySelectorAll<HTMLElement>('#steps li')];
  const now = steps.findIndex(({ dataset }) => dataset.step === step);
  for (const [i, one] of steps.entries()) {
    one.classList.toggle('done', now === -1 ? step === null : i < now);
    if (i === now) one.setAttribute('aria-current', 'step');
    else one.removeAttribute('aria-current');
  }
}

function showPlace({ place }: View): void {
  element('place').hidden = element('way').hidden = place === null;
  if (!place) return;
  write('place-label', texts.yourPlace);
  write('position', numberText(place.position));
  write('queue-size', fill(texts.of, { size: numberText(place.size) }));
  const way = element('way') as HTMLProgressElement;
  way.value = place.percent;
  way.setAttribute('aria-label', texts.way);
}

function showClock({ clock }: View, nowMs: number): void {
  element('clock').hidden = clock === null;
  if (!clock) return;
  const { days, clock: time } = countdownOf(clock.untilMs - nowMs);
  write('clock-label', clock.label);
  write('clock-days', days > 0 ? daysText(days) : '');
  write('clock-time', time);
}

function showOrder({ order }: View): void {
  element('order').hidden = order === null;
  if (!order) return;
  write('order-label', order.label);
  write('order-id', order.text);
}

function showButtons({ button, second, pay }: View, nowMs: number): void {
  const [act, quiet, link] = [element('act'), element('second'), element('pay') as HTMLAnchorElement];
  write('act', button?.label ?? '');
  // Not `disabled`, because that would lose the focus at the moment of the press.
  act.setAttribute('aria-disabled', String(!button?.enabled));
  act.hidden = button === null;
  write('second', second?.label ?? '');
  quiet.hidden = second === null;
  link.hidden = pay === null;
  if (pay) {
    if (link.href !== pay.href) link.href = pay.href;
    write('pay-label', pay.label);
    element('pay-left').hidden = pay.untilMs === null;
    if (pay.untilMs !== null) write('pay-time', countdownOf(pay.untilMs - nowMs).clock);
  }
}
