import { Temporal } from 'temporal-polyfill';

/**
 * Times as operators write them and shoppers read them: on the clock of the campaign's time zone. Beside `shared/domain`, since
 * it needs the tables of time zones.
 */
export type WindowEdge = 'start' | 'end';

/** First and last moment that every part keeps: 0 means "none" in Redis, and a year of five digits is no RFC 3339. */
const EARLIEST_MS = 1;
const LATEST_MS = Date.UTC(9999, 0, 1);

const WITH_OFFSET = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:\d{2})$/;
const LOCAL = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?$/;
const DAY = /^\d{4}-\d{2}-\d{2}$/;

/**
 * The moment that an operator means.
 * @param text RFC 3339 with an offset; or a local date and time; or a day, which begins a sale at its first moment and ends
 *   one when it is over
 * @param zone IANA name, for the latter two
 * @returns null when it is none of these, or a day or an hour that does not exist in any year
 */
export function momentOf(text: string, zone: string, edge: WindowEdge): Date | null {
  const ms = millisecondsOf(text, zone, edge);
  return ms !== null && ms >= EARLIEST_MS && ms < LATEST_MS ? new Date(ms) : null;
}

/** Whether it has one of the forms that `momentOf` reads, for those who do not know the zone yet. */
export const isMoment = (text: string): boolean => momentOf(text, 'UTC', 'start') !== null;

/** The time on the clock of a zone, as RFC 3339 with the zone's offset at that moment. About 10 µs. */
export function localTime(moment: Date, zone: string): string {
  return Temporal.Instant.fromEpochMilliseconds(moment.getTime())
    .toZonedDateTimeISO(zone)
    .toString({ timeZoneName: 'never', smallestUnit: 'millisecond' });
}

/** Names of the IANA database, in whatever case; offsets like "+07:00" are none, since they know no summer time. */
export function isTimeZone(name: string): boolean {
  if (!/^[A-Za-z]/.test(name)) return false;
  try {
    Temporal.Instant.fromEpochMilliseconds(0).toZonedDateTimeISO(name);
    return true;
  } catch (error) {
    if (error instanceof RangeError) return false;
    throw error;
  }
}

function millisecondsOf(text: string, zone: string, edge: WindowEdge): number | null {
  try {
    if (WITH_OFFSET.test(text)) return Temporal.Instant.from(text).epochMilliseconds;
    if (LOCAL.test(text)) return ofLocalTime(Temporal.PlainDateTime.from(text), zone, edge);
    if (DAY.test(text)) return ofDay(Temporal.PlainDate.from(text), zone, edge);
    return null;
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
}

/** A day ends when the next one begins, also where the clocks skip midnight or a whole day. */
function ofDay(day: Temporal.PlainDate, zone: string, edge: WindowEdge): number {
  const first = edge === 'start' ? day : day.add({ days: 1 });
  return first.toZonedDateTime(zone).epochMilliseconds;
}

/**
 * A sale is on whenever a clock in the zone shows a time from its start up to its end. So a time that comes twice begins it the
 * first time and ends it the second, and one that the clocks skip means the moment of the skip.
 */
function ofLocalTime(time: Temporal.PlainDateTime, zone: string, edge: WindowEdge): number {
  const first = time.toZonedDateTime(zone, { disambiguation: 'earlier' });
  const second = time.toZonedDateTime(zone, { disambiguation: 'later' });
  if (first.toPlainDateTime().equals(time)) return (edge === 'start' ? first : second).epochMilliseconds;
  return (first.getTimeZoneTransition('next') ?? second).epochMilliseconds;
}
