import type { FoundSale } from './public-sales.js';

/** A line of a calendar file has at most this many octets; longer ones are folded. */
const LINE_OCTETS = 75;
/** How long the entry of a sale without an end is. */
const OPEN_END_MS = 30 * 60_000;

/**
 * Makes a calendar file (RFC 5545) of the start of a sale, with a reminder ten minutes before.
 * @param url of the page
 */
export function calendarFile({ sale, branding }: FoundSale, url: string): string {
  const startsAtMs = Date.parse(sale.starts_at);
  const endsAtMs = sale.ends_at ? Date.parse(sale.ends_at) : startsAtMs + OPEN_END_MS;
  const lines = [
    'BEGIN:VCALENDAR',
    'VERSION:2.0',
    'PRODID:-//Doorbuster//sale//EN',
    'BEGIN:VEVENT',
    `UID:${textOf(sale.product_id)}@doorbuster`,
    `DTSTAMP:${momentOf(Date.parse(sale.server_time))}`,
    `DTSTART:${momentOf(startsAtMs)}`,
    `DTEND:${momentOf(Math.max(endsAtMs, startsAtMs))}`,
    `SUMMARY:${textOf(branding.title ?? sale.name)}`,
    ...(branding.description ? [`DESCRIPTION:${textOf(branding.description)}`] : []),
    `URL:${url}`,
    'BEGIN:VALARM',
    'ACTION:DISPLAY',
    'TRIGGER:-PT10M',
    `DESCRIPTION:${textOf(branding.title ?? sale.name)}`,
    'END:VALARM',
    'END:VEVENT',
    'END:VCALENDAR',
  ];
  return `${lines.map(folded).join('\r\n')}\r\n`;
}

/** `20261122T180000Z` */
function momentOf(ms: number): string {
  return new Date(ms).toISOString().replace(/[-:]|\.\d+/g, '');
}

function textOf(text: string): string {
  return text.replace(/[\\;,]/g, '\\$&').replace(/\r\n|\r|\n/g, '\\n');
}

/** Folds a line between characters. A folded part begins with a space, which counts. */
function folded(line: string): string {
  const parts: string[] = [];
  let part = '';
  let octets = 0;
  for (const character of line) {
    const size = Buffer.byteLength(character);
    if (octets + size > LINE_OCTETS) {
      parts.push(part);
      part = ' ';
      octets = 1;
    }
    part += character;
    octets += size;
  }
  return [...parts, part].join('\r\n');
}
