export const BAN_EFFECTS = ['ban', 'allow'] as const;
export const BAN_KINDS = ['user', 'device', 'network'] as const;
export type BanEffect = (typeof BAN_EFFECTS)[number];
export type BanKind = (typeof BAN_KINDS)[number];

/** A user, device or network that is banned, or (`allow`) that no rule may ban. */
export type Ban = {
  id: string;
  effect: BanEffect;
  kind: BanKind;
  /** Of a network: an IPv4 address, the /64 of an IPv6 one, or a range, in one notation. */
  subject: string;
  /** null = until it is lifted */
  untilMs: number | null;
  reason: string;
  /** An operator, or the rule that did it. */
  actor: string;
};

/** Names of operators have no colon. */
export const RULE_PREFIX = 'rule:';
/** Whether a rule made it, and no operator. */
export const isByRule = ({ actor }: Pick<Ban, 'actor'>): boolean => actor.startsWith(RULE_PREFIX);
