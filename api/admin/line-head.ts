import { FIRST_BUCKET } from '../../shared/domain/buckets.js';
import type { ProductId } from '../../shared/domain/ids.js';
import type { Sales } from '../../shared/sale/sales.js';
import type { LineHeadOutcome } from '../../shared/sale/scripts/line-head.js';

type Line = Extract<LineHeadOutcome, { kind: 'line' }>;

/**
 * Returns the first users in a line, and the reason why no user is promoted. In a divided campaign the lines of all
 * buckets are merged by their numbers.
 * @param limit users, at most MAX_LINE_HEAD
 * @throws EngineUnavailable
 */
export async function headOfLine(sales: Sales, product: ProductId, limit: number): Promise<LineHeadOutcome> {
  const stores = sales.all(product);
  const [first] = stores;
  if (!first || stores.length === 1) return sales.of(product, FIRST_BUCKET).line.head(product, limit);
  const lines = await Promise.all(
    stores.map(async (store) => {
      const [line, numbers] = await Promise.all([store.line.head(product, limit), store.buckets.heads(product, limit)]);
      return line.kind === 'line' && numbers.kind === 'heads'
        ? { line, numbers: numbers.heads, codes: numbers.codes }
        : null;
    }),
  );
  const known = lines.flatMap((one) => one ?? []);
  if (known.length < stores.length) return { kind: 'not_found' };
  const head = known
    // The line may have moved between the two reads; an operator sees the order of a moment ago.
    .flatMap(({ line, numbers }) => line.head.map((user, i) => ({ user, lineNo: numbers[i]?.lineNo ?? Infinity })))
    .sort((a, b) => a.lineNo - b.lineNo)
    .slice(0, limit)
    .map(({ user }) => user);
  const free = known.reduce((sum, { line }) => sum + (line.free ?? 0), 0);
  const hasCodes = known.some(({ codes }) => codes === null || codes.unused > 0);
  return {
    kind: 'line',
    reason: reasonOf(
      known.map(({ line }) => line),
      free,
      head[0]?.qty ?? 0,
      hasCodes,
    ),
    queueSize: known.reduce((sum, { line }) => sum + line.queueSize, 0),
    free: known[0]?.line.free === null ? null : free,
    head,
  };
}

/** Reasons of the stock, which is that of all buckets together. */
const OF_STOCK: ReadonlySet<Line['reason']> = new Set([
  ...(['nothing_free', 'head_wants_more', 'codes_used_up', 'handing_over'] as const),
]);

/** Why no user of any bucket is promoted. @param wanted units of the first user */
function reasonOf(lines: readonly Line[], free: number, wanted: number, hasCodes: boolean): Line['reason'] {
  const [first] = lines;
  const waiting = lines.find(({ reason }) => reason !== 'nobody_waits' && reason !== 'no_line');
  if (!first || !waiting) return first?.reason ?? 'no_line';
  // A reason of the campaign is the same in each bucket.
  if (!OF_STOCK.has(waiting.reason)) return waiting.reason;
  if (free === 0) return 'nothing_free';
  if (wanted > free) return 'head_wants_more';
  return hasCodes ? 'handing_over' : 'codes_used_up';
}
