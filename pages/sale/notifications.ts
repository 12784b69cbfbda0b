import type { Sale } from '../../client/sale.js';
import { language, page } from './page-data.js';
import { remembered } from './remembered.js';
import { keepForTurn } from './visitor.js';

const WORKER = '/assets/push-worker.js';
const CHOICE = 'doorbuster|notify';

/**
 * Notifies the shopper by Web Push when it is their turn, also with the page closed. Off until the shopper turns it on.
 * The choice is remembered, so that it applies to later places too.
 */
export class Notifications {
  /** Whether the last attempt to subscribe failed. */
  failed = false;
  /** Whether the server has the subscription of this place. */
  #subscribed = false;
  #working: Promise<void> = Promise.resolve();
  /** What the shopper chose last, while it is being done. */
  #choice: { on: boolean } | null = null;

  constructor(readonly sale: Sale) {}

  /** Whether this server sends notifications, and this browser can show them. */
  get possible(): boolean {
    return Boolean(page.pushKey) && 'serviceWorker' in navigator && 'PushManager' in window && 'Notification' in window;
  }

  /**
   * Whether they would be possible if the shopper added this page to the Home Screen: Safari on iPhones and iPads shows
   * notifications only of pages that were opened from there.
   */
  get needsHomeScreen(): boolean {
    const { standalone } = navigator as { standalone?: boolean };
    return Boolean(page.pushKey) && standalone === false && !('PushManager' in window);
  }

  /** Whether the shopper has forbidden them in the browser. */
  get blocked(): boolean {
    return Notification.permission === 'denied';
  }

  /** Whether they are on, or the shopper is turning them on. */
  get on(): boolean {
    return this.#choice?.on ?? this.#isKept;
  }

  get #isKept(): boolean {
    return remembered.getItem(CHOICE) === 'on' && Notification.permission === 'granted';
  }

  /** Must be called by a press, because browsers ask for permission only then. */
  async turn(on: boolean): Promise<void> {
    this.failed = false;
    const choice = { on };
    this.#choice = choice;
    try {
      const granted = on && (await Notification.requestPermission()) === 'granted';
      // The shopper chose again while the browser asked.
      if (this.#choice !== choice) return;
      remembered.setItem(CHOICE, granted ? 'on' : 'off');
      await this.#inOrder(() => (granted ? this.#subscribe() : this.#unsubscribe()));
    } finally {
      if (this.#choice === choice) this.#choice = null;
    }
  }

  /** Call it when the shopper gets a place in line. */
  async placed(): Promise<void> {
    this.#subscribed = false;
    this.failed = false;
    if (this.possible && this.#isKept) await this.#inOrder(() => this.#subscribe());
  }

  #inOrder(work: () => Promise<void>): Promise<void> {
    this.#working = this.#working.catch(() => {}).then(work);
    return this.#working;
  }

  async #subscribe(): Promise<void> {
    if (this.#subscribed || this.sale.standing?.status !== 'queued' || !this.sale.holdsTicket) return;
    await navigator.serviceWorker.register(WORKER, { scope: '/sale/' });
    const { pushManager } = await navigator.serviceWorker.ready;
    const subscription = await subscriptionOf(pushManager);
    await this.sale.subscribeToPush(subscription.toJSON(), language);
    keepForTurn(this.sale.options.productId, this.sale.options.userId);
    this.#subscribed = true;
  }

  async #unsubscribe(): Promise<void> {
    if (!this.#subscribed) return;
    this.#subscribed = false;
    await this.sale.unsubscribeFromPush();
  }
}

async function subscriptionOf(pushManager: PushManager): Promise<PushSubscription> {
  const options = { userVisibleOnly: true, applicationServerKey: page.pushKey };
  try {
    return await pushManager.subscribe(options);
  } catch (error) {
    // A subscription with an earlier key of the server.
    const old = await pushManager.getSubscription();
    if (!old) throw error;
    await old.unsubscribe();
    return pushManager.subscribe(options);
  }
}
