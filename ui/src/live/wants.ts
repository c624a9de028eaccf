interface Want {
  /** When it is to be asked for; absent while nobody wants it. */
  due: number | null;
  asked: number;
  inFlight: boolean;
}

/**
 * What is to be read again, each thing once however often it is named: at most one question about it is under
 * way, and between two questions lies `gap`, unless it is urgent. Pure: the clock is an argument.
 */
export class Wants {
  readonly #gap: number;
  readonly #of = new Map<string, Want>();

  constructor(gap: number) {
    this.#gap = gap;
  }

  want(id: string, now: number, urgent: boolean): void {
    const known = this.#of.get(id);
    if (!known) {
      this.#of.set(id, { due: now, asked: Number.NEGATIVE_INFINITY, inFlight: false });
      return;
    }
    const due = urgent ? now : Math.max(now, known.asked + this.#gap);
    known.due = Math.min(known.due ?? due, due);
  }

  /** Takes up to `most` things that are due, the longest due first. They are under way from now on. */
  take(now: number, most: number): string[] {
    const due = [...this.#of].filter(([, want]) => want.due !== null && !want.inFlight && want.due <= now);
    due.sort(([, left], [, right]) => (left.due ?? 0) - (right.due ?? 0));
    return due.slice(0, Math.max(0, most)).map(([id, want]) => {
      want.due = null;
      want.asked = now;
      want.inFlight = true;
      return id;
    });
  }

  /** The answer about `id` has come. What nobody wants any more is forgotten once its gap has passed. */
  done(id: string, now: number): void {
    const want = this.#of.get(id);
    if (!want) return;
    want.inFlight = false;
    for (const [other, { due, asked, inFlight }] of this.#of) {
      if (due === null && !inFlight && asked + this.#gap <= now) this.#of.delete(other);
    }
  }

  /** When {@link take} has something again; absent when nothing is wanted. */
  next(): number | null {
    let next: number | null = null;
    for (const { due, inFlight } of this.#of.values()) {
      if (due !== null && !inFlight) next = next === null ? due : Math.min(next, due);
    }
    return next;
  }

  get underWay(): number {
    let n = 0;
    for (const { inFlight } of this.#of.values()) if (inFlight) n += 1;
    return n;
  }

  clear(): void {
    this.#of.clear();
  }
}
