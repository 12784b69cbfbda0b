import { FirstStore, randomId } from './attempt.js';
import { countdownOf } from './countdown.js';
import { type CampaignView, Refusal, Sale, type SaleOptions, type Standing } from './sale.js';

/** The texts of the element in English. `element.texts` replaces some of them. */
export const TEXTS = {
  loading: 'One moment…',
  opens: 'Opens {time}',
  buy: 'Get one now',
  again: 'Try again',
  trying: 'Getting one for you…',
  paused: 'The sale is paused. It continues by itself.',
  ended: 'The sale is over.',
  soldOut: 'Sold out',
  place: 'Place {position} of {size}',
  leave: 'Leave the line',
  gotOne: 'You got one!',
  pay: 'Pay now',
  payBefore: 'It is reserved for you until {time}.',
  nothingToPay: 'It is yours. There is nothing to pay.',
  otherDevice: 'You checked out on another device. Continue there.',
  giveBack: 'Give it back',
  paid: 'Paid. It is yours!',
  expired: 'The time to pay is over.',
  released: 'You gave it back.',
  left: 'You left the line.',
  closed: 'The line is closed.',
  trouble: 'It did not work ({code}). Please try again.',
};
export type ElementTexts = typeof TEXTS;

const items = new FirstStore('localStorage', 'sessionStorage');
const STYLE = `:host{display:block;font:inherit}[hidden]{display:none}p{margin:0 0 .5em}
button,a{display:block;box-sizing:border-box;width:100%;padding:.75em 1em;margin-top:.5em;border:2px solid transparent;border-radius:.5em;
font:inherit;font-weight:700;text-align:center;text-decoration:none;cursor:pointer;background:var(--doorbuster-accent,var(--campaign-accent,#b3261e));
color:var(--doorbuster-on-accent,var(--campaign-on-accent,#fff))}
button[aria-disabled=true]{background:none;border-color:currentColor;color:inherit;cursor:default}
.quiet{background:none;color:inherit;font-weight:400;text-decoration:underline}`;
const LOOK_EVERY_MS = 20_000;
const TICK_MS = 1_000;

/** `pay`: the link, and until when it is of use. */
type Look = {
  text: string;
  button?: string;
  isOff?: boolean;
  pay?: { href: string; untilMs: number };
  quiet?: 'leave' | 'giveBack';
};

/**
 * A sale in a page of the shop: `<doorbuster-sale product-id="…" user-id="…" base-url="https://sale.shop.example">`.
 * Parts for styles: `text`, `button`, `pay`, `quiet`. Emits `doorbuster-change` with `{standing, campaign}`. `options`
 * has what attributes cannot have, such as `authorization`; set it before the element is in the page.
 */
export class DoorbusterSale extends HTMLElement {
  options: Partial<SaleOptions> = {};
  texts: Partial<ElementTexts> = {};
  sale: Sale | null = null;
  campaign: CampaignView | null = null;
  #refusal: string | null = null;
  #trying = false;
  #timers: ReturnType<typeof setInterval>[] = [];
  readonly #text = part('p', 'text');
  readonly #button = part('button', 'button');
  readonly #pay = part('a', 'pay');
  readonly #quiet = part('button', 'quiet');

  constructor() {
    super();
    const root = this.attachShadow({ mode: 'open' });
    // A sheet that is not in the document needs no exception in the content security policy of the shop.
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(STYLE);
    root.adoptedStyleSheets = [sheet];
    this.#text.setAttribute('role', 'status');
    this.#quiet.className = 'quiet';
    root.append(this.#text, this.#pay, this.#button, this.#quiet);
    this.#button.addEventListener('click', () => {
      if (this.#button.getAttribute('aria-disabled') !== 'true') this.buy();
    });
    this.#quiet.addEventListener('click', () => this.#giveUp());
  }

  connectedCallback(): void {
    const sale = new Sale({
      productId: this.getAttribute('product-id') ?? '',
      userId: this.getAttribute('user-id') ?? guest(),
      baseUrl: this.getAttribute('base-url') ?? '',
      ...this.options,
    });
    this.sale = sale;
    const show = () => this.#show();
    sale.on('change', () => {
      this.#refusal = null;
      show();
      const detail = { standing: sale.standing, campaign: this.campaign };
      this.dispatchEvent(new CustomEvent('doorbuster-change', { detail, bubbles: true, composed: true }));
    });
    sale.on('lost', show);
    for (const event of ['paused', 'resumed', 'closed'] as const) sale.on(event, () => this.#look());
    this.#timers = [setInterval(() => this.#look(), LOOK_EVERY_MS), setInterval(show, TICK_MS)];
    this.#look();
    sale.resume().catch((error) => this.#refuse(error));
  }

  disconnectedCallback(): void {
    for (const timer of this.#timers) clearInterval(timer);
    this.sale?.stop();
    this.sale = null;
  }

  /** Tries to get a unit or a place in line. */
  async buy(): Promise<void> {
    this.#trying = true;
    this.#refusal = null;
    this.#show();
    try {
      await this.sale?.attempt();
    } catch (error) {
      this.#refuse(error);
    } finally {
      this.#trying = false;
      this.#show();
    }
  }

  async #giveUp(): Promise<void> {
    const isWaiting = this.sale?.standing?.status === 'queued';
    await (isWaiting ? this.sale?.leave() : this.sale?.release())?.catch((error) => this.#refuse(error));
  }

  async #look(): Promise<void> {
    try {
      this.campaign = (await this.sale?.campaign()) ?? this.campaign;
      this.#colour(this.campaign?.branding?.accent);
    } catch (error) {
      if (this.campaign === null) this.#refuse(error);
    }
    this.#show();
  }

  /** Takes the accent of the campaign, where the style of the shop sets no colour. */
  #colour(accent: unknown): void {
    if (typeof accent !== 'string' || !/^#[0-9a-f]{6}$/i.test(accent)) return;
    const style = getComputedStyle(this);
    if (style.getPropertyValue('--doorbuster-accent') || style.getPropertyValue('--doorbuster-on-accent')) return;
    this.style.setProperty('--campaign-accent', accent);
    this.style.setProperty('--campaign-on-accent', inkOn(accent));
  }

  #refuse(error: unknown): void {
    if (!(error instanceof Refusal)) throw error;
    this.#refusal = error.code;
    this.#show();
  }

  #show(): void {
    const look = this.#standingLook() ?? this.#saleLook();
    const trouble =
      this.#refusal && this.#refusal !== 'sold_out' ? ` ${this.#say('trouble', { code: this.#refusal })}` : '';
    write(this.#text, look.text + trouble);
    write(this.#button, look.button ?? '');
    this.#button.hidden = look.button === undefined;
    this.#button.setAttribute('aria-disabled', String(look.isOff === true));
    this.#pay.hidden = look.pay === undefined;
    if (look.pay) {
      write(this.#pay, this.#say('pay') + this.#countdown(look.pay.untilMs));
      if (this.#pay.getAttribute('href') !== look.pay.href) this.#pay.setAttribute('href', look.pay.href);
    }
    write(this.#quiet, look.quiet ? this.#say(look.quiet) : '');
    this.#quiet.hidden = look.quiet === undefined;
    this.dataset.status = this.sale?.standing?.status ?? this.campaign?.status ?? 'loading';
  }

  /** What a visitor without a place or unit sees. */
  #saleLook(): Look {
    const { campaign } = this;
    if (this.#trying) return { text: '', button: this.#say('trying'), isOff: true };
    if (!campaign) return { text: this.#refusal ? '' : this.#say('loading') };
    const nowMs = this.sale?.now() ?? Date.now();
    if (campaign.status === 'ended' || (campaign.ends_at && nowMs >= Date.parse(campaign.ends_at)))
      return { text: this.#say('ended') };
    if (campaign.status === 'paused') return { text: this.#say('paused') };
    const startsMs = Date.parse(campaign.starts_at);
    if (campaign.status === 'scheduled' && nowMs < startsMs) {
      const opens = this.#say('opens', { time: this.#time(campaign.starts_at) });
      return { text: '', button: opens + this.#countdown(startsMs), isOff: true };
    }
    if (campaign.sold_out || this.#refusal === 'sold_out')
      return { text: this.#say('soldOut'), ...(campaign.has_line ? {} : { button: this.#say('again') }) };
    return { text: '', button: this.#say(this.#refusal ? 'again' : 'buy') };
  }

  #standingLook(): Look | null {
    const standing = this.#trying ? null : (this.sale?.standing ?? null);
    switch (standing?.status) {
      case 'queued': {
        const text = this.#say('place', { position: standing.position ?? '', size: standing.queue_size });
        const paused = this.campaign?.status === 'paused' ? ` · ${this.#say('paused')}` : '';
        return { text: text + paused, ...(this.sale?.holdsTicket ? { quiet: 'leave' } : {}) };
      }
      case 'promoted':
      case 'completed':
        return this.#unitLook(standing);
      case 'redeemed':
        return { text: this.#say('paid') };
      case 'expired':
      case 'released':
      case 'left':
        return { text: this.#say(standing.status), button: this.#say('again') };
      case 'closed':
        return { text: this.#say(this.campaign?.sold_out ? 'soldOut' : 'closed') };
      default:
        return null;
    }
  }

  #unitLook({ pay_before, checkout_url }: Standing): Look {
    const text = (more: string) => `${this.#say('gotOne')} ${more}`;
    if (!this.sale?.holdsTicket) return { text: text(this.#say('otherDevice')) };
    if (!pay_before) return { text: text(this.#say('nothingToPay')) };
    const untilMs = Date.parse(pay_before);
    if (this.sale.now() >= untilMs) return { text: this.#say('expired') };
    const reserved = text(this.#say('payBefore', { time: this.#time(pay_before) }));
    return { text: reserved, quiet: 'giveBack', ...(checkout_url ? { pay: { href: checkout_url, untilMs } } : {}) };
  }

  /** The time until a moment by the server's clock, behind a text; empty while it is a day or more. */
  #countdown(untilMs: number): string {
    const { days, clock } = countdownOf(untilMs - (this.sale?.now() ?? Date.now()));
    return days > 0 ? '' : ` · ${clock}`;
  }

  #say(name: keyof ElementTexts, values: Record<string, string | number> = {}): string {
    return (this.texts[name] ?? TEXTS[name]).replace(/\{(\w+)\}/g, (_, key: string) => String(values[key] ?? ''));
  }

  #time(iso: string): string {
    const clock = { weekday: 'short', hour: '2-digit', minute: '2-digit', timeZoneName: 'short' } as const;
    return new Intl.DateTimeFormat(this.lang || undefined, clock).format(new Date(iso));
  }
}

function part<Name extends 'p' | 'button' | 'a'>(tag: Name, name: string): HTMLElementTagNameMap[Name] {
  const made = document.createElement(tag);
  made.setAttribute('part', name);
  made.hidden = tag !== 'p';
  return made;
}

function write(target: HTMLElement, text: string): void {
  if (target.textContent !== text) target.textContent = text;
}

/** White where its contrast on the colour is above 4.5 (WCAG 2), else black, whose contrast is then above 4.5. */
function inkOn(colour: string): string {
  const parts = [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16) / 255);
  const [r = 0, g = 0, b = 0] = parts.map((it) => (it <= 0.04045 ? it / 12.92 : ((it + 0.055) / 1.055) ** 2.4));
  return 1.05 / (0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05) >= 4.5 ? '#fff' : '#000';
}

/** The id of a visitor without `user-id`: the same each time in this browser. It proves nothing to the server. */
function guest(): string {
  const kept = items.getItem('doorbuster|guest');
  if (kept) return kept;
  const made = `guest-${randomId()}`;
  items.setItem('doorbuster|guest', made);
  return made;
}

if (!customElements.get('doorbuster-sale')) customElements.define('doorbuster-sale', DoorbusterSale);
