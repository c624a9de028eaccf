// The order form as the screen uses it: every change is kept, faults show beside their fields once something was
// tried, and nothing is sent but by the operator's own submit.

import { computed, reactive, ref, shallowRef, watch } from 'vue';
import type { Failure, OrderId, RunId } from '@/ipc/bindings';
import { linkedOrder } from '@/app/navigation';
import { call } from '@/ipc/call';
import { fieldOf, sentenceOf } from './faults';
import { emptyForm, faultsOf, isPlainRun, startFault, toDraft, toRun } from './form';
import type { Faults, Field, OrderForm } from './form';
import { forgetForm, loadForm, saveForm, withLink } from './keep';

/** Where a submit led. */
export type Landed = { run: RunId } | { order: OrderId; words: string } | { orders: number };

export function useOrderForm(box: Storage = window.localStorage) {
  const form = reactive<OrderForm>(loadForm(box) ?? emptyForm());
  const kept = ref(JSON.stringify(form) !== JSON.stringify(emptyForm()));
  const unkept = ref(false);
  const tried = ref(false);
  const sending = ref<'start' | 'queue' | null>(null);
  const failure = shallowRef<Failure | null>(null);
  const linked = ref<'filled' | 'replaced' | null>(null);

  /** Takes what a link says, once. It fills fields; only the operator starts anything. */
  watch(
    linkedOrder,
    (link) => {
      if (!link) return;
      const { form: filled, replaced } = withLink(form, link);
      Object.assign(form, filled);
      linked.value = replaced ? 'replaced' : 'filled';
      linkedOrder.value = null;
    },
    { immediate: true },
  );
  watch(form, (now) => {
    unkept.value = !saveForm(box, now);
    failure.value = null;
  }, { deep: true });

  const found = computed(() => faultsOf(form));
  const faults = computed<Faults>(() => {
    const refused = failure.value ? fieldOf(failure.value) : null;
    return { ...(tried.value ? found.value : {}), ...(refused && failure.value ? { [refused]: sentenceOf(failure.value) } : {}) };
  });
  const general = computed(() => (failure.value && fieldOf(failure.value) === null ? failure.value : null));
  const ready = computed(() => Object.keys(found.value).length === 0);

  function done(): void {
    forgetForm(box);
    Object.assign(form, emptyForm());
    [tried.value, kept.value, linked.value] = [false, false, null];
  }

  async function send(how: 'start' | 'queue'): Promise<Landed | null> {
    tried.value = true;
    failure.value = null;
    if (!ready.value || sending.value !== null || (how === 'start' && startFault(form) !== null)) return null;
    sending.value = how;
    const landed = how === 'start' && isPlainRun(form) ? await run() : await order(how);
    sending.value = null;
    return landed;
  }

  async function run(): Promise<Landed | null> {
    const answer = await call.runCreate(toRun(form));
    if (!answer.ok) return refused(answer.failure);
    done();
    return { run: answer.value.id };
  }

  async function order(how: 'start' | 'queue'): Promise<Landed | null> {
    const added = await call.orderAdd({ draft: toDraft(form, new Date()) });
    if (!added.ok) return refused(added.failure);
    done();
    const orders = added.value.orders;
    if (how === 'start') {
      for (const { id } of orders) {
        const started = await call.orderDispatch({ order: id });
        if (!started.ok) return { order: id, words: `It is in the queue and was not started: ${sentenceOf(started.failure)}` };
        if (orders.length > 1) continue;
        if (started.value.state === 'dispatched') return { run: started.value.run };
        const why = started.value.wait?.words;
        return { order: id, words: why ? `It is in the queue and could not start yet: ${why}.` : 'It is next in the queue.' };
      }
    }
    const only = orders.length === 1 ? orders[0] : undefined;
    return only ? { order: only.id, words: only.wait ? `In the queue: ${only.wait.words}.` : 'In the queue, next.' } : { orders: orders.length };
  }

  function refused(why: Failure): null {
    failure.value = why;
    return null;
  }

  return {
    form, faults, general, kept, unkept, linked, sending, send,
    start: computed(() => startFault(form)),
    /** The first field that needs a change after a try; absent when there is none. */
    firstFault: computed<Field | null>(() => (tried.value ? ((Object.keys(faults.value)[0] as Field | undefined) ?? null) : null)),
    throwAway: done,
  };
}

export type OrderFormState = ReturnType<typeof useOrderForm>;
