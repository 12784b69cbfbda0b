/** Two clicks within this time, and this near to each other, are a double click. */
const WITHIN_MS = 500;
const WITHIN_PIXELS = 24;

type Click = { control: Element; atMs: number; x: number; y: number };

/**
 * Ignores the second click of a double click if it would press another control than the first one: the press has
 * changed the page, and the shopper cannot have read what is now below the pointer. Presses by keys pass.
 */
export function ignoreSecondClicks(within: HTMLElement): void {
  let last: Click | null = null;
  within.addEventListener(
    'click',
    (event) => {
      // Browsers report presses by keys as a click without a count.
      if (event.detail === 0) return;
      const control = controlOf(event.target);
      if (!control) return;
      const click = { control, atMs: event.timeStamp, x: event.clientX, y: event.clientY };
      if (last && last.control !== control && isDouble(last, click)) {
        event.preventDefault();
        event.stopImmediatePropagation();
        return;
      }
      last = click;
    },
    { capture: true },
  );
}

/** A press on a label also clicks the input in it. */
function controlOf(target: EventTarget | null): Element | null {
  return target instanceof Element ? (target.closest('label') ?? target.closest('a, button, input')) : null;
}

function isDouble(first: Click, second: Click): boolean {
  const pixels = Math.hypot(second.x - first.x, second.y - first.y);
  return second.atMs - first.atMs < WITHIN_MS && pixels <= WITHIN_PIXELS;
}
