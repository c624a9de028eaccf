/**
 * Keeps answers in order. Each question takes a ticket when it is asked; an answer counts for an item only
 * if no answer to a later question has come for it already, so an old answer never overwrites a newer one.
 */
export class Tickets {
  #last = 0;
  #everything = 0;
  readonly #of = new Map<string, number>();

  take(): number {
    this.#last += 1;
    return this.#last;
  }

  /** True when the answer to `ticket` about `id` is the newest one; it counts as given then. */
  accept(id: string, ticket: number): boolean {
    if (ticket < this.#everything || ticket < (this.#of.get(id) ?? 0)) return false;
    this.#of.set(id, ticket);
    return true;
  }

  /** True when an answer to a question asked after `ticket` has come for `id`. */
  isNewer(id: string, ticket: number): boolean {
    return (this.#of.get(id) ?? 0) > ticket;
  }

  /** For an answer about everything there is: older answers count no more. False when it is old itself. */
  acceptAll(ticket: number): boolean {
    if (ticket < this.#everything) return false;
    this.#everything = ticket;
    for (const [id, of] of this.#of) if (of <= ticket) this.#of.delete(id);
    return true;
  }
}
