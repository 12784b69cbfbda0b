export const BAN_EFFECTS = ['ban', 'allow'] as const;
export const BAN_KINDS = ['user', 'device', 'network'] as const;
export type BanEffect = (typeof BAN_EFFECTS)[number];
export type BanKind = (typeof BAN_KINDS)[number];

/** A user, device or network that is banned, or (effect `allow`) that rules must not ban. */
export type Ban = {
  id: string;
  effect: BanEffect;
  kind: BanKind;
  /** For a network: an IPv4 address, the /64 of an IPv6 address, or a range, in canonical notation. */
  subject: string;
  /** null = until an operator lifts the ban */
  untilMs: number | null;
  reason: string;
  /** The operator or the rule that banned the subject. */
  actor: string;
};

/** The prefix of actors that are rules. Names of operators have no colon. */
export const RULE_PREFIX = 'rule:';
/** Whether a rule made the ban, not an operator. */
export const isByRule = ({ actor }: Pick<Ban, 'actor'>): boolean => actor.startsWith(RULE_PREFIX);
