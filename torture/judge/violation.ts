/** Something that the rules of the service do not allow, with the calls and rows that show it. */
export type Violation = { rule: string; what: string; evidence: unknown[] };
