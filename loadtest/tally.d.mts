export class Tally {
  promises: Map<string, { user: string; reservation: string }[]>;
  begin(): void;
  sent(name: string): void;
  answered(name: string, outcome: string, ms: number): void;
  broken(name: string, why: string): void;
  promised(product: string, user: string, reservation: string): void;
  fault(what: string): void;
  count(name: string, outcome: string): number;
}
export function outcomeOf(status: number, body: unknown): string;
