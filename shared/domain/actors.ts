/** Names in the audit log for what the service does by itself. No key of an operator may have one of them. */
export const ACTORS = { velocity: 'velocity', clock: 'clock' } as const;
