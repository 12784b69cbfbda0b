import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { atEnd } from './cleanup.js';

/**
 * A copy of the Lua folder whose scripts get one fixed time from `TIME`, so that a test can use the exact millisecond
 * of a limit. Everything else of them is as it is.
 */
export function luaWithClockAt(luaFolder: string, nowMs: number): string {
  return luaWithClock(luaFolder, `{ '${Math.floor(nowMs / 1000)}', '${(nowMs % 1000) * 1000}' }`);
}

/** The same with the time of a key, in milliseconds, so that a test can advance the clock. */
export function luaWithClockIn(luaFolder: string, key: string): string {
  const ms = `redis.call('GET', '${key}')`;
  return luaWithClock(luaFolder, `{ string.sub(${ms}, 1, -4), string.sub(${ms}, -3) .. '000' }`);
}

function luaWithClock(luaFolder: string, time: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'doorbuster-lua-'));
  atEnd('a folder with scripts', () => rmSync(folder, { recursive: true }));
  cpSync(luaFolder, folder, { recursive: true });
  const clock = join(folder, 'includes/clock.lua');
  const [before, after] = readFileSync(clock, 'utf8').split("redis.call('TIME')");
  if (after === undefined) throw new Error('the clock of the scripts does not call TIME');
  writeFileSync(clock, before + time + after);
  return folder;
}
