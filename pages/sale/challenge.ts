import { solveWork } from '../../client/sale.js';
import { language, texts } from './page-data.js';
import { element, write } from './stage.js';

/** A challenge that a person solves (docs/challenges.md). */
type HumanChallenge = { provider: 'turnstile' | 'hcaptcha'; site_key: string; script: string; data: string };
/** The parts of both providers that this page uses. */
type Widgets = {
  render(container: HTMLElement, options: Record<string, unknown>): string;
  remove(widget: string): void;
};

/** Sent if the challenge cannot be shown. If its provider is away, the server asks for a proof of work then. */
const NOTHING = 'none';
/** Calls of a widget that give no response. */
const FAILURES = [
  'error-callback',
  'expired-callback',
  'timeout-callback',
  'unsupported-callback',
  'chalexpired-callback',
  'close-callback',
];
const LOAD_LIMIT_MS = 8_000;

/** Solves a challenge: a person does, or this device works. */
export async function solveChallenge(challenge: unknown): Promise<Record<string, unknown> | null> {
  if ((challenge as { kind?: string }).kind !== 'human') return solveWork(challenge);
  write('challenge-label', texts.person);
  element('challenge').hidden = false;
  element('challenge').focus();
  try {
    return { challenge_solution: `human.${await responseOf(challenge as HumanChallenge).catch(() => NOTHING)}` };
  } finally {
    element('challenge').hidden = true;
  }
}

async function responseOf({ provider, site_key, script, data }: HumanChallenge): Promise<string> {
  await load(`${script}?render=explicit`);
  const widgets = (window as unknown as Record<string, Widgets | undefined>)[provider];
  if (!widgets) return NOTHING;
  let widget: string | undefined;
  try {
    return await new Promise<string>((resolve) => {
      widget = widgets.render(element('challenge-box'), {
        ...{ sitekey: site_key, cData: data, language, hl: language },
        callback: resolve,
        ...Object.fromEntries(FAILURES.map((name) => [name, () => resolve(NOTHING)])),
      });
    });
  } finally {
    if (widget !== undefined) widgets.remove(widget);
  }
}

/** Loads a script once. @throws if it cannot be loaded in time */
function load(src: string): Promise<void> {
  const known = document.querySelector<HTMLScriptElement>(`script[src="${src}"]`);
  if (known?.dataset.loaded) return Promise.resolve();
  known?.remove();
  return new Promise((resolve, reject) => {
    const tag = document.createElement('script');
    tag.src = src;
    tag.onload = () => {
      tag.dataset.loaded = 'yes';
      resolve();
    };
    tag.onerror = reject;
    setTimeout(reject, LOAD_LIMIT_MS);
    document.head.append(tag);
  });
}
