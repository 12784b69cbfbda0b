import { covers, type Role } from '../../shared/domain/role.js';
import { el } from './elements.js';

let own: Role = 'viewer';
let buckets = 1;

/** Sets the role of the operator who has logged in, and how many buckets a campaign may have here. */
export function setSession({ role, max_buckets }: { role: Role; max_buckets: number }): void {
  own = role;
  buckets = max_buckets;
}

/** How many buckets a campaign may have; 1 = campaigns cannot be divided. */
export const maxBuckets = (): number => buckets;

/** Whether the operator's role includes another one. The service decides; the page only shows what it would allow. */
export const may = (needed: Role): boolean => covers(own, needed);

/** Returns the control, or null for an operator whose role does not suffice. */
export const onlyFor = <Control extends Node>(needed: Role, control: Control): Control | null =>
  may(needed) ? control : null;

/** Says which role an action needs. */
export const roleNote = (what: string, needed: Role): HTMLElement =>
  el('p', { class: 'hint' }, `${what} needs the role ${needed}. Your role is ${own}.`);
