import { inject, provide } from 'vue';
import type { ComputedRef, InjectionKey } from 'vue';

/** What a control inside a UiField is told: its id, and the ids of what describes it. */
export interface FieldLinks {
  id: string;
  describedBy: string | undefined;
  invalid: boolean;
}

const KEY: InjectionKey<ComputedRef<FieldLinks>> = Symbol('field');

export function provideField(links: ComputedRef<FieldLinks>): void {
  provide(KEY, links);
}

export function useField(): ComputedRef<FieldLinks> | null {
  return inject(KEY, null);
}
