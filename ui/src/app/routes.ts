import { createRouter, createWebHashHistory } from 'vue-router';
import type { RouteRecordRaw } from 'vue-router';

const ROUTES: RouteRecordRaw[] = [
  { path: '/', name: 'board', component: () => import('@/features/board/BoardScreen.vue'), meta: { title: 'Board' } },
  { path: '/run/:id/:tab?', name: 'run', component: () => import('@/features/run/RunScreen.vue'), meta: { title: 'Run' } },
  { path: '/inbox/:block?', name: 'inbox', component: () => import('@/features/blocks/InboxScreen.vue'), meta: { title: 'Inbox' } },
  { path: '/policy', name: 'policy', component: () => import('@/features/policy/PolicyScreen.vue'), meta: { title: 'Policy' } },
  { path: '/doctor', name: 'doctor', component: () => import('@/features/doctor/DoctorScreen.vue'), meta: { title: 'Doctor' } },
  { path: '/settings', name: 'settings', component: () => import('@/features/settings/SettingsScreen.vue'), meta: { title: 'Settings' } },
  { path: '/orders/new', name: 'new-order', component: () => import('@/features/orders/NewOrderScreen.vue'), meta: { title: 'New order' } },
  { path: '/order/:id', name: 'order', component: () => import('@/features/orders/OrderScreen.vue'), meta: { title: 'Order' } },
  { path: '/first-run', name: 'first-run', component: () => import('@/features/first-run/FirstRunScreen.vue'), meta: { title: 'First run' } },
  { path: '/:rest(.*)*', redirect: '/' },
];

export const router = createRouter({ history: createWebHashHistory(), routes: ROUTES });
