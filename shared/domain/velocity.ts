export const VELOCITY_MODES = ['pause', 'alert', 'off'] as const;
/**
 * What happens when far more users than usual get their first promise of a campaign within seconds. pause: the script
 * that made the last promise pauses the campaign · alert: it is counted and logged · off: users are not counted
 * (lua/includes/velocity.lua)
 */
export type VelocityMode = (typeof VELOCITY_MODES)[number];

/** Minutes after the start and after a restock in which a campaign is not paused. */
export const DEFAULT_OPENING_MINUTES = 2;
export const MAX_OPENING_MINUTES = 1_440;

export function storedVelocity(stored: unknown): VelocityMode {
  return VELOCITY_MODES.find((mode) => mode === stored) ?? 'alert';
}

export function storedOpeningMinutes(stored: unknown): number {
  const isMinutes = Number.isInteger(stored) && Number(stored) >= 0 && Number(stored) <= MAX_OPENING_MINUTES;
  return isMinutes ? Number(stored) : DEFAULT_OPENING_MINUTES;
}

/**
 * What is reported at most once a minute for a campaign or bucket: `paused`, or only `alerted`. `users`: how many got
 * their first promise within five seconds. `usual`: the mean of five seconds since the opening, at most of an hour.
 */
export type VelocityVerdict = { outcome: 'paused' | 'alerted'; users: number; usual: number };
