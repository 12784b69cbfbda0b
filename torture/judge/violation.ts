/** Something that the rules of the service do not allow, with the calls and rows that show it. */
export type Violation = { rule: string; what: string; evidence: unknown[] };

/** What a rule finds. `isSlow`: only later than it should be, which a busy machine can cause. */
export type Finding = Violation & { isSlow?: boolean };

/** `slow`: the report names it, and no run fails because of it. */
export type Judgement = { violations: Violation[]; slow: Violation[] };
