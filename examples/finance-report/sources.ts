import { readFileSync } from 'node:fs';
import { parse } from 'csv-parse/sync';
import type { ProviderPayment, Redemption } from './report.js';

const PAGE = 1_000;

/** The columns of the export with the payment, its state and its amount. `paid`: states in which the money is there. */
export type ExportColumns = { payment: string; status: string; amount: string; paid: readonly string[] };

/** Reads the export of a payment provider: CSV with a header line. @throws when a column is missing */
export function readExport(file: string, columns: ExportColumns): ProviderPayment[] {
  const rows: Record<string, string>[] = parse(readFileSync(file, 'utf8'), { columns: true, bom: true, trim: true });
  return rows.map((row, i) => {
    const cell = (name: string): string => {
      const value = row[name];
      if (value === undefined) throw new Error(`line ${i + 2} of ${file} has no column ${name}`);
      return value;
    };
    const isPaid = columns.paid.includes(cell(columns.status).toLowerCase());
    return {
      payment_ref: cell(columns.payment),
      status: isPaid ? 'paid' : 'refunded',
      amount: cell(columns.amount),
    };
  });
}

/** Reads all redemptions of a campaign through the admin API. @throws when the API does not respond with them */
export async function readRedemptions(api: string, key: string, campaign: string): Promise<Redemption[]> {
  const all: Redemption[] = [];
  for (let cursor: string | null = ''; cursor !== null; ) {
    const query = new URLSearchParams({ limit: String(PAGE), ...(cursor ? { cursor } : {}) });
    const response = await fetch(`${api}/admin/campaigns/${campaign}/redemptions?${query}`, {
      headers: { authorization: `Bearer ${key}` },
    });
    if (!response.ok) throw new Error(`the API responded with ${response.status}`);
    const page = (await response.json()) as { data: Redemption[]; next_cursor: string | null };
    all.push(...page.data);
    cursor = page.next_cursor;
  }
  return all;
}
