import DataLoader from 'dataloader';
import { EngineUnavailable } from '../errors/faults.js';

/**
 * Questions of one moment are one statement, and there is one statement at a time: those who ask meanwhile are the next
 * one. So a crowd costs Postgres no more than its rows.
 */
export class GroupedReads<Question, Answer> {
  readonly #loader: DataLoader<Question, Answer>;
  readonly #groups: (() => void)[] = [];
  #reading = false;
  #waiting = 0;

  /** @param read answers in the order of the questions */
  constructor(
    read: (questions: readonly Question[]) => Promise<Answer[]>,
    readonly limits: { group: number; waiting: number },
  ) {
    this.#loader = new DataLoader(
      async (questions) => {
        try {
          return await read(questions);
        } finally {
          this.#reading = false;
          this.#next();
        }
      },
      {
        cache: false,
        maxBatchSize: limits.group,
        batchScheduleFn: (dispatch) => {
          this.#groups.push(dispatch);
          this.#next();
        },
      },
    );
  }

  /** @throws EngineUnavailable when the question cannot be asked, or too many wait already */
  async ask(question: Question): Promise<Answer> {
    if (this.#waiting >= this.limits.waiting) {
      throw new EngineUnavailable('postgres', `${this.#waiting} questions wait for it already`);
    }
    this.#waiting += 1;
    try {
      return await this.#loader.load(question);
    } finally {
      this.#waiting -= 1;
    }
  }

  #next(): void {
    if (this.#reading) return;
    const dispatch = this.#groups.shift();
    if (!dispatch) return;
    this.#reading = true;
    // Reads that begin in this turn of the event loop are grouped.
    setImmediate(dispatch);
  }
}
