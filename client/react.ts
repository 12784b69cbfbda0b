import { useCallback, useEffect, useRef, useState } from 'react';
import { type CampaignView, type Connection, Refusal, Sale, type SaleOptions, type Standing } from './sale.js';

export type SaleState = {
  /** null = not known yet, or no attempt */
  standing: Standing | null;
  campaign: CampaignView | null;
  connection: Connection | null;
  /** Whether an attempt runs. */
  trying: boolean;
  /** The last refusal, until something else happens. */
  refusal: Refusal | null;
  /** Whether this device may pay, leave the line and give up the unit. */
  holdsTicket: boolean;
};

export type SaleActions = {
  attempt(qty?: number): Promise<void>;
  leave(): Promise<void>;
  release(): Promise<void>;
  /** The server's time in ms. */
  now(): number;
};

const EMPTY: SaleState = {
  standing: null,
  campaign: null,
  connection: null,
  trying: false,
  refusal: null,
  holdsTicket: false,
};
const LOOK_EVERY_MS = 20_000;

/**
 * A sale for one shopper, as state of a React component. A new product, user or address begins a new sale; other
 * options are read once.
 */
export function useSale(options: SaleOptions): SaleState & SaleActions {
  const [state, setState] = useState<SaleState>(EMPTY);
  const current = useRef<Sale | null>(null);
  const latest = useRef(options);
  latest.current = options;
  const { productId, userId, baseUrl } = options;

  const run = useCallback(async (work: (sale: Sale) => Promise<unknown>) => {
    const sale = current.current;
    if (!sale) return;
    const set = (change: Partial<SaleState>) => current.current === sale && setState((now) => ({ ...now, ...change }));
    try {
      await work(sale);
      set({ refusal: null });
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      set({ refusal: error });
    } finally {
      set({ standing: sale.standing, connection: sale.connection, holdsTicket: sale.holdsTicket });
    }
  }, []);

  useEffect(() => {
    const sale = new Sale({ ...latest.current, productId, userId, ...(baseUrl === undefined ? {} : { baseUrl }) });
    current.current = sale;
    setState(EMPTY);
    const show = () =>
      setState((now) => ({
        ...now,
        standing: sale.standing,
        connection: sale.connection,
        holdsTicket: sale.holdsTicket,
      }));
    const look = () => readCampaign(sale).then((campaign) => campaign && setState((now) => ({ ...now, campaign })));
    for (const event of ['change', 'connection', 'lost'] as const) sale.on(event, show);
    for (const event of ['paused', 'resumed', 'closed'] as const) sale.on(event, look);
    const timer = setInterval(look, LOOK_EVERY_MS);
    look();
    run(() => sale.resume());
    return () => {
      clearInterval(timer);
      sale.stop();
      current.current = null;
    };
  }, [productId, userId, baseUrl, run]);

  const attempt = useCallback(
    async (qty?: number) => {
      setState((now) => ({ ...now, trying: true, refusal: null }));
      await run((sale) => sale.attempt(qty));
      setState((now) => ({ ...now, trying: false }));
    },
    [run],
  );
  const leave = useCallback(() => run((sale) => sale.leave()), [run]);
  const release = useCallback(() => run((sale) => sale.release()), [run]);
  const now = useCallback(() => current.current?.now() ?? Date.now(), []);
  return { ...state, attempt, leave, release, now };
}

/** Returns null if the campaign cannot be read now; an attempt shows why. */
async function readCampaign(sale: Sale): Promise<CampaignView | null> {
  try {
    return await sale.campaign();
  } catch (error) {
    if (error instanceof Refusal) return null;
    throw error;
  }
}
