/**
 * Splits a duration into whole days and a clock: `01:02:03`, or `02:03` below an hour. Seconds are rounded up, so that
 * zero is shown only at the end.
 */
export function countdownOf(leftMs: number): { days: number; clock: string } {
  const seconds = Math.max(0, Math.ceil(leftMs / 1000));
  const days = Math.floor(seconds / 86_400);
  const parts = [Math.floor((seconds % 86_400) / 3600), Math.floor((seconds % 3600) / 60), seconds % 60];
  const shown = days > 0 || parts[0] ? parts : parts.slice(1);
  return { days, clock: shown.map((part) => String(part).padStart(2, '0')).join(':') };
}
