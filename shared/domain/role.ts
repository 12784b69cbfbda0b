/** What operators may do. Each role includes those before it (docs/team.md). */
export const ROLES = ['viewer', 'support', 'marketer', 'admin'] as const;
export type Role = (typeof ROLES)[number];

/** Whether a role includes another one. */
export const covers = (role: Role, needed: Role): boolean => ROLES.indexOf(role) >= ROLES.indexOf(needed);
