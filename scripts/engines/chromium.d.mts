// The types of chromium.mjs, by hand: scripts/ is plain JavaScript because it runs before TypeScript is installed.

/** The path of a browser, got first if need be, or why there is none. */
export function findChromium(): Promise<{ path: string } | { missing: string }>;
